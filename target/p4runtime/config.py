# SPDX-License-Identifier: Apache-2.0
"""The forwarding-pipeline config of a device: verify, save, commit, reconcile, and read back.

P4Runtime specification 1.5, "`SetForwardingPipelineConfig` RPC" and "`GetForwardingPipelineConfig` RPC".
Whatever fails leaves the running pipeline, its state and a saved config as they were.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from finsy.proto import p4i, p4r, rpc_code

from target.api import DeviceApi, DeviceError
from target.bmjson import JsonError, Program
from target.bmjson import load as load_json
from target.p4runtime import consistency
from target.p4runtime.batch import write_batch
from target.p4runtime.device_config import unwrap
from target.p4runtime.export import export_state
from target.p4runtime.p4info import P4InfoIndex, build_index
from target.p4runtime.pipeline import Pipeline, p4_error
from target.p4runtime.shadow import ShadowDevice
from target.p4runtime.status import (
    BatchError,
    P4Error,
    failed_precondition,
    internal,
    invalid_argument,
    not_found,
)

_Request = p4r.SetForwardingPipelineConfigRequest
_GetRequest = p4r.GetForwardingPipelineConfigRequest


@dataclass(frozen=True, slots=True)
class ParsedConfig:
    """A config whose two halves parse and belong together."""

    message: p4r.ForwardingPipelineConfig
    bmv2_json: str
    index: P4InfoIndex
    program: Program


def parse_config(message: p4r.ForwardingPipelineConfig) -> ParsedConfig:
    """Raises INVALID_ARGUMENT, naming the element of P4Info or JSON that is wrong."""
    if not message.HasField("p4info"):
        raise invalid_argument("the config has no p4info")
    if not message.p4_device_config:
        raise invalid_argument("the config has no p4_device_config (the BMv2 JSON)")
    p4info = message.p4info.SerializeToString(deterministic=True)
    return ParsedConfig(message, *_parse(p4info, message.p4_device_config))


@functools.lru_cache(maxsize=8)
def _parse(p4info: bytes, device_config: bytes) -> tuple[str, P4InfoIndex, Program]:
    """Cached: the many devices of a fabric get the same few configs. Nobody changes the results later."""
    message = p4i.P4Info.FromString(p4info)
    index = build_index(message)
    bmv2_json = unwrap(device_config)
    try:
        program = load_json(bmv2_json)
    except JsonError as error:
        raise invalid_argument(f"p4_device_config: {error}") from None
    consistency.check(message, index, program)
    return bmv2_json, index, program


class ConfigStore:
    """The configs of one device: the one that runs and the one that is saved. Not thread-safe by itself."""

    def __init__(self, device: DeviceApi) -> None:
        self.device = device
        self._running: Pipeline | None = None
        self._saved: tuple[ParsedConfig, Pipeline] | None = None
        self._saved_writes: list[p4r.Update] = []

    @property
    def running(self) -> Pipeline | None:
        """The pipeline that packets go through."""
        return self._running

    @property
    def current(self) -> Pipeline | None:
        """The pipeline that reads and writes refer to: the saved one if there is one."""
        return self._running if self._saved is None else self._saved[1]

    @property
    def write_log(self) -> list[p4r.Update] | None:
        """Where successful writes are noted for a later COMMIT; None while nothing is saved."""
        return None if self._saved is None else self._saved_writes

    def require(self) -> Pipeline:
        """The current pipeline. Raises FAILED_PRECONDITION while there is none."""
        if self.current is None:
            # Clients look for these words.
            raise failed_precondition("No forwarding pipeline config set for this device")
        return self.current

    # --- set

    def set(self, action: _Request.Action.ValueType, message: p4r.ForwardingPipelineConfig | None) -> None:
        """Raises P4Error; see the specification for the codes."""
        if action == _Request.COMMIT:
            self._commit(message)
            return
        actions = {
            _Request.VERIFY: self._verify,
            _Request.VERIFY_AND_SAVE: self._save,
            _Request.VERIFY_AND_COMMIT: self._replace,
            _Request.RECONCILE_AND_COMMIT: self._reconcile,
        }
        if action not in actions:
            raise invalid_argument(f"action {action} is none that a config can be set with")
        if message is None:
            raise invalid_argument("the request has no config")
        config = p4r.ForwardingPipelineConfig()
        config.CopyFrom(message)
        actions[action](parse_config(config))

    def _verify(self, config: ParsedConfig) -> None:
        try:
            self.device.verify_pipeline(config.bmv2_json)
        except (DeviceError, JsonError) as error:
            raise _refused(error) from None

    def _save(self, config: ParsedConfig) -> None:
        self._verify(config)
        self._saved = (config, self._shadow(config))
        self._saved_writes = []

    def _commit(self, message: p4r.ForwardingPipelineConfig | None) -> None:
        if message is not None:
            raise invalid_argument("COMMIT takes no config, it commits the saved one")
        if self._saved is None:
            raise not_found("no config is saved; send VERIFY_AND_SAVE first")
        self._install(self._saved[0], self._saved_writes)

    def _replace(self, config: ParsedConfig) -> None:
        self._install(config, [])

    def _reconcile(self, config: ParsedConfig) -> None:
        running = self._running
        if running is None:
            self._install(config, [])
            return
        if (
            running.config.p4_device_config == config.message.p4_device_config
            and running.config.p4info == config.message.p4info
        ):
            running.config = config.message
            self._saved = None
            return
        for id_, name in config.index.names.items():
            before = running.index.names.get(id_, name)
            if before != name:
                raise invalid_argument(
                    f"the forwarding state can't be preserved: id {id_:#010x} was {before!r}, is {name!r} now"
                )
        state = export_state(running)
        try:
            write_batch(self._shadow(config), state)
        except BatchError as error:
            failed = next(e for e in error.errors if e is not None)
            raise invalid_argument(f"the forwarding state can't be preserved: {failed.message}") from None
        self._install(config, state)

    def _shadow(self, config: ParsedConfig) -> Pipeline:
        real = self.device
        device = ShadowDevice(config.program, real.name, real.device_id, real.cpu_port, real.ports())
        return Pipeline(config.message, config.index, device)

    def _install(self, config: ParsedConfig, writes: list[p4r.Update]) -> None:
        """Run `config` with the state that `writes` make; on a failure, what ran before runs on."""
        before = self._running
        state = export_state(before) if before is not None and writes else []
        try:
            self.device.load_pipeline(config.bmv2_json)
        except (DeviceError, JsonError) as error:
            raise _refused(error) from None
        pipeline = Pipeline(config.message, config.index, self.device)
        try:
            write_batch(pipeline, writes)
        except BatchError as error:
            self._restore(before, state, error)
        self._running = pipeline
        self._saved = None
        self._saved_writes = []

    def _restore(self, before: Pipeline | None, state: list[p4r.Update], error: BatchError) -> None:
        if before is None:
            raise internal(f"the pipeline is loaded, but not all writes could be replayed: {error.message}")
        try:
            self.device.load_pipeline(unwrap(before.config.p4_device_config))
            self._running = Pipeline(before.config, before.index, self.device)
            write_batch(self._running, state)
        except (DeviceError, JsonError, BatchError) as second:
            raise internal(
                f"writes could not be replayed ({error.message}), nor the former state restored ({second})"
            ) from None
        raise P4Error(rpc_code.INTERNAL, f"writes could not be replayed, nothing changed: {error.message}")

    # --- get

    def get(self, response_type: _GetRequest.ResponseType.ValueType) -> p4r.ForwardingPipelineConfig | None:
        """The config as the client sent it, the asked parts only; None if there is none."""
        pipeline = self.current
        if pipeline is None:
            return None
        config = pipeline.config
        out = p4r.ForwardingPipelineConfig()
        if response_type not in _GetRequest.ResponseType.values():
            raise invalid_argument(f"response type {response_type} is unknown")
        if response_type in (_GetRequest.ALL, _GetRequest.P4INFO_AND_COOKIE):
            out.p4info.CopyFrom(config.p4info)
        if response_type in (_GetRequest.ALL, _GetRequest.DEVICE_CONFIG_AND_COOKIE):
            out.p4_device_config = config.p4_device_config
        if config.HasField("cookie"):
            out.cookie.CopyFrom(config.cookie)
        return out


def _refused(error: DeviceError | JsonError) -> P4Error:
    if isinstance(error, JsonError):
        return invalid_argument(f"p4_device_config: {error}")
    if error.code == "INVALID_ARGUMENT":
        return invalid_argument(f"p4_device_config: {error.message}")
    return p4_error(error)

# SPDX-License-Identifier: Apache-2.0
"""The independent checker of one receiving NIC, for Python: frames in, broken promises out.

It shares neither code nor counters with the dataplane. The rules are in hosts/core/include/checker.h."""

from __future__ import annotations

from dataclasses import dataclass, fields
from types import TracebackType
from typing import Any

from hosts.endpoint import Buffer
from hosts.native import Native, load

ALWAYS = 1 << 32
"""`forgive_threshold` of P = 1."""


@dataclass(frozen=True, slots=True)
class StepPromise:
    """What the control plane promises of a step: the entry of the NIC's table `steps`, and the bytes that the
    rank expects (docs/dataplane.md)."""

    step_tag: int
    p_ppm: int
    expected_bytes: int
    budget_bytes: int
    packet_bytes: int
    open: bool = True
    forgive_threshold: int = ALWAYS
    vesting: bool = True
    exemption: int = 0
    """0 paper, 1 never, 2 never ends."""
    eligible: bool = True
    notification_interval_us: int = 0
    forgiveness_echoes: bool = False
    trimmed_starts_flow: bool = True


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken promise. What `expected` and `seen` are depends on `kind`; `text` says it in one line."""

    kind: str
    time_ns: int
    qp: int
    psn: int
    start: int
    length_bytes: int
    expected: int
    seen: int
    text: str


@dataclass(frozen=True, slots=True)
class StepBooks:
    """One step as recounted. Bytes, but for the reports."""

    step_tag: int
    """0: none yet."""
    p_ppm: int
    expected_bytes: int
    limit_bytes: int
    """floor(p x expected)."""
    received_bytes: int
    forgiven_bytes: int
    outstanding_bytes: int
    most_outstanding_bytes: int
    trimmed_bytes: int
    """Of headers, whether or not anything of them was missing."""
    unknown_bytes: int
    """Of these: of headers that found no flow and started none. The NIC does not count them."""
    requested_bytes: int
    """What was missing of the ranges that were requested."""
    reports: int
    """Of eligible flows."""
    exhausted_reports: int
    trimmed_by_fifth: tuple[int, ...]
    """By (received + forgiven) / expected when the header came."""
    forgiven_by_fifth: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CheckerStats:
    """One NIC, since the start."""

    reports: int
    requests: int
    deliveries: int
    notifications: int
    data_packets: int
    trimmed_packets: int
    unknown_packets: int
    """Of these: headers that found no flow and started none."""
    dropped_packets: int
    """That the NIC's rules drop: bad range, stale, beyond the window."""
    malformed: int
    lost_packets: int
    """Inside the NIC when it restarted, and not answered."""
    received_bytes: int
    duplicate_bytes: int
    late_bytes: int
    """Data for a range forgiven before, while its message was incomplete."""
    forgiven_bytes: int
    trimmed_bytes: int
    messages: int
    complete_messages: int
    pending: int
    """Packets whose report has not left yet."""
    violations: int
    by_kind: dict[str, int]
    """Of violations; kinds that occurred."""


class Checker:
    """Not thread-safe. `now_ns` never falls between calls. `kept`: so many violations are kept, the others
    counted."""

    def __init__(
        self,
        *,
        gradient_dscp: int,
        gradient_trimmed_dscp: int,
        data_trimmed_dscp: int,
        notification_interval_us: int = 0,
        kept: int = 20,
    ) -> None:
        self._ffi, self._lib = load()
        native = self._ffi.new("checker_config_t *")
        native.notification_interval_us = notification_interval_us
        native.kept_violations = kept
        native.gradient_dscp = gradient_dscp
        native.gradient_trimmed_dscp = gradient_trimmed_dscp
        native.data_trimmed_dscp = data_trimmed_dscp
        out = self._ffi.new("checker_t **")
        self._handle: Native = self._ffi.NULL
        self._check(self._lib.checker_create(native, out), "three DSCPs of 6 bits that differ, kept <= 2^20")
        self._handle = out[0]

    def close(self) -> None:
        handle, self._handle = self._handle, self._ffi.NULL
        self._lib.checker_destroy(handle)

    def __enter__(self) -> Checker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.close()

    @property
    def handle(self) -> Native:
        """`checker_t *`, the context of `checker_wire` and `checker_host`."""
        return self._handle

    def _check(self, status: int, allowed: str) -> None:
        if status == self._lib.CHECKER_NO_MEMORY:
            raise MemoryError("checker")
        if status != self._lib.CHECKER_OK:
            raise ValueError(f"checker: must be {allowed}")

    # --- what was promised

    def set_step(self, now_ns: int, slot: int, step: StepPromise) -> None:
        """The entry of a slot as installed or changed at this moment. Raises ValueError."""
        native = self._ffi.new("checker_step_t *")
        for field in fields(StepPromise):
            setattr(native, field.name, int(getattr(step, field.name)))
        allowed = f"a step slot below 8, a tag above 0, p_ppm up to a million, ...: slot {slot}, {step}"
        self._check(self._lib.checker_set_step(self._handle, now_ns, slot, native), allowed)

    def close_step(self, now_ns: int, slot: int) -> None:
        self._check(self._lib.checker_close_step(self._handle, now_ns, slot), f"a slot below 8: {slot}")

    def remove_step(self, now_ns: int, slot: int) -> None:
        self._check(self._lib.checker_remove_step(self._handle, now_ns, slot), f"a slot below 8: {slot}")

    def expect(self, qp: int, length_bytes: int) -> None:
        """A message that is expected on a receive queue pair, before its first packet. Raises ValueError."""
        allowed = f"a queue pair that is not in use and a length above 0: {qp:#x}, {length_bytes}"
        self._check(self._lib.checker_expect(self._handle, qp, length_bytes), allowed)

    def forget(self, qp: int) -> None:
        """The message was given up: it need not become complete. Raises ValueError."""
        self._check(self._lib.checker_forget(self._handle, qp), f"a queue pair that is expected: {qp:#x}")

    def restart(self, now_ns: int) -> None:
        """The NIC has forgotten flows and bytes, and its steps are installed again, closed. Books say from
        now on what came since; messages that start over must be expected again. Rules: checker.h.
        """
        self._check(self._lib.checker_restart(self._handle, now_ns), "a checker")

    # --- what happens

    def wire(self, now_ns: int, outgoing: bool, frame: Buffer, wire_bytes: int | None = None) -> bool:
        """A frame at the NIC's wire port. True: it breaks a promise."""
        return self._frame(self._lib.checker_wire, now_ns, outgoing, frame, wire_bytes)

    def host(self, now_ns: int, outgoing: bool, frame: Buffer, wire_bytes: int | None = None) -> bool:
        """A frame at the NIC's host port. True: it breaks a promise."""
        return self._frame(self._lib.checker_host, now_ns, outgoing, frame, wire_bytes)

    def _frame(
        self, function: Native, now_ns: int, outgoing: bool, frame: Buffer, wire_bytes: int | None
    ) -> bool:
        pointer = self._ffi.from_buffer("uint8_t[]", frame)
        length = len(pointer) if wire_bytes is None else wire_bytes
        return bool(function(self._handle, now_ns, int(outgoing), pointer, len(pointer), length))

    def finish(self, now_ns: int) -> int:
        """Nothing more will come: whatever is still due is a violation. The number of all violations."""
        return int(self._lib.checker_finish(self._handle, now_ns))

    # --- results

    def violations(self) -> tuple[Violation, ...]:
        """Those that were kept, oldest first."""
        count = int(self._lib.checker_violations(self._handle, self._ffi.NULL, 0))
        natives = self._ffi.new("checker_violation_t[]", max(count, 1))
        self._lib.checker_violations(self._handle, natives, count)
        return tuple(self._violation(natives[i]) for i in range(count))

    def _violation(self, native: Any) -> Violation:
        text = self._ffi.new("char[]", 512)
        self._lib.checker_describe(self._ffi.addressof(native), text, 512)
        return Violation(
            kind=self._kind(native.kind),
            time_ns=int(native.time_ns),
            qp=int(native.qp),
            psn=int(native.psn),
            start=int(native.start),
            length_bytes=int(native.length_bytes),
            expected=int(native.expected),
            seen=int(native.seen),
            text=self._ffi.string(text).decode(),
        )

    def _kind(self, kind: int) -> str:
        name: bytes = self._ffi.string(self._lib.checker_kind_name(kind))
        return name.decode()

    def stats(self) -> CheckerStats:
        native = self._ffi.new("checker_stats_t *")
        self._lib.checker_get_stats(self._handle, native)
        counts: dict[str, Any] = {
            f.name: int(getattr(native, f.name)) for f in fields(CheckerStats) if f.name != "by_kind"
        }
        kinds = {self._kind(i): int(n) for i, n in enumerate(native.violations_by_kind) if n}
        return CheckerStats(**counts, by_kind=kinds)

    def step(self, slot: int) -> StepBooks:
        """The slot's last step. Raises ValueError."""
        native = self._ffi.new("checker_step_stats_t *")
        self._check(self._lib.checker_get_step(self._handle, slot, native), f"a slot below 8: {slot}")
        values: dict[str, Any] = {}
        for field in fields(StepBooks):
            value = getattr(native, field.name)
            values[field.name] = tuple(map(int, value)) if field.name.endswith("_by_fifth") else int(value)
        return StepBooks(**values)

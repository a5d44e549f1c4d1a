# SPDX-License-Identifier: Apache-2.0
"""`DigestEntry`: whether and how a digest's lists are sent (P4Runtime specification 1.5)."""

from __future__ import annotations

from collections.abc import Iterator

from finsy.proto import p4r

from target.api import DigestConfig
from target.p4runtime.entities.base import Undo
from target.p4runtime.p4info import Digest
from target.p4runtime.pipeline import Pipeline
from target.p4runtime.status import already_exists, invalid_argument, not_found


def digest_of(pipeline: Pipeline, digest_id: int) -> Digest:
    digest = pipeline.index.digests.get(digest_id)
    if digest is None:
        raise pipeline.index.no_such("digest", digest_id)
    return digest


class DigestHandler:
    def p4_id(self, entity: p4r.Entity) -> int:
        return entity.digest_entry.digest_id

    def write(self, pipeline: Pipeline, operation: p4r.Update.Type.ValueType, entity: p4r.Entity) -> Undo:
        request = entity.digest_entry
        digest = digest_of(pipeline, request.digest_id)
        what, device = f"digest {digest.name!r}", pipeline.device
        before = device.digest_config(digest.name)
        if operation == p4r.Update.INSERT and before is not None:
            raise already_exists(f"{what} is enabled already")
        if operation != p4r.Update.INSERT and before is None:
            raise not_found(f"{what} is not enabled")
        config = None if operation == p4r.Update.DELETE else _decode(request.config, what)
        device.digest_set(digest.name, config)
        return lambda: device.digest_set(digest.name, before)

    def read(self, pipeline: Pipeline, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        wanted = entity.digest_entry.digest_id
        digests = [digest_of(pipeline, wanted)] if wanted else list(pipeline.index.digests.values())
        for digest in digests:
            config = pipeline.device.digest_config(digest.name)
            if config is None:
                if wanted:
                    raise not_found(f"digest {digest.name!r} is not enabled")
                continue
            message = p4r.DigestEntry.Config(
                max_timeout_ns=config.max_timeout_ns,
                max_list_size=config.max_list_size,
                ack_timeout_ns=config.ack_timeout_ns,
            )
            yield p4r.Entity(digest_entry=p4r.DigestEntry(digest_id=digest.id, config=message))


def _decode(config: p4r.DigestEntry.Config, what: str) -> DigestConfig:
    for name in ("max_timeout_ns", "max_list_size", "ack_timeout_ns"):
        if getattr(config, name) < 0:
            raise invalid_argument(f"{what}: {name} is negative")
    return DigestConfig(config.max_timeout_ns, config.max_list_size, config.ack_timeout_ns)

# SPDX-License-Identifier: Apache-2.0
"""Digest lists and idle entries as stream messages (P4Runtime specification 1.5, "Stream Messages")."""

from __future__ import annotations

from finsy.proto import p4r

from target.api import DeviceError, DigestList, IdleEntries, Notice
from target.p4runtime.match import encode_key
from target.p4runtime.pipeline import Pipeline


def stream_message(pipeline: Pipeline, notice: Notice) -> tuple[int, p4r.StreamMessageResponse] | None:
    """The id of the digest or table, and the message; None if what it is about is gone."""
    if isinstance(notice, DigestList):
        return _digest_list(pipeline, notice)
    return _idle_timeout(pipeline, notice)


def _digest_list(pipeline: Pipeline, notice: DigestList) -> tuple[int, p4r.StreamMessageResponse] | None:
    digest = next((d for d in pipeline.index.digests.values() if d.name == notice.digest), None)
    if digest is None:
        return None
    response = p4r.StreamMessageResponse()
    message = response.digest
    message.digest_id, message.list_id, message.timestamp = digest.id, notice.id, notice.time_ns
    message.data.extend(digest.encode(iter(sample)) for sample in notice.samples)
    return digest.id, response


def _idle_timeout(pipeline: Pipeline, notice: IdleEntries) -> tuple[int, p4r.StreamMessageResponse] | None:
    table = next((t for t in pipeline.index.tables.values() if t.name == notice.table), None)
    if table is None:
        return None
    response = p4r.StreamMessageResponse()
    message = response.idle_timeout_notification
    message.timestamp = notice.time_ns
    for key, priority in notice.entries:
        try:
            timeout_ns = pipeline.device.entry_timeout(table.name, key, priority)
        except DeviceError:
            continue  # deleted meanwhile
        entry = message.table_entry.add(table_id=table.id, priority=priority, idle_timeout_ns=timeout_ns)
        encode_key(table, key, entry)
        notes = pipeline.get_notes(table.id, (key, priority))
        entry.controller_metadata, entry.metadata = notes.controller_metadata, notes.metadata
    return (table.id, response) if message.table_entry else None

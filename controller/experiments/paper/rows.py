# SPDX-License-Identifier: Apache-2.0
"""What a cell (an arm with a seed) leaves behind: files and their columns.

In `cells/<arm>-<seed>/`:
    collectives.parquet  CollectiveRow: every all-reduce of every rank, every flow of the burst
    steps.parquet        StepRow: every gradient step of every rank, as its NIC and the checker saw it
    flows.parquet        FlowRow: messages by kind and step
    timeline.parquet     TimeRow: budgets through the steps, sums over ranks
    queues.parquet       QueueRow: the data queues through the run
    totals.parquet       TotalsRow: the run, one row
    configuration.json   everything the run was given (`profiles.Configuration`)
    manifest.json        arm, seed, versions, wall and CPU time, violations; written last
Every row starts with arm and seed. Bytes are payload bytes unless said, times are simulated nanoseconds,
steps count from 1, ranks from 0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import polars as pl


@dataclass(frozen=True, slots=True)
class CollectiveRow:
    """One all-reduce of one rank; of kind "burst": one flow, rank is its source.

    kind: "tp", "dp" or "burst". start: the rank began it; end: it had received everything (a burst's flow:
    its sender had the last acknowledgement). missing_bytes: forgiven or given up by senders; shed_bytes: the
    latter.
    """

    arm: str
    seed: int
    rank: int
    step: int
    kind: str
    index: int
    start_ns: int
    end_ns: int
    missing_bytes: int
    shed_bytes: int


@dataclass(frozen=True, slots=True)
class StepRow:
    """One rank's gradient step, as a receiver.

    received ... trimmed: the NIC's byte state at the step's end (eligible flows; trimmed: of all headers of
    the step). checked_*: the checker's own count of the same. trimmed_fifth_i, forgiven_fifth_i: by how much
    of the step's expected bytes was received or forgiven when the header came, in fifths (all in the first
    where no flow is eligible: then nothing counts as received). forgiven ...
    became_obeying: events of the rank's NIC since its step before, the last three as a sender;
    signals_ignored: withheld from its exempt flows. A NIC that restarts forgets: what it and the checker say
    of such a step is of the time since.
    """

    arm: str
    seed: int
    rank: int
    step: int
    critical: bool
    p_ppm: int
    expected_bytes: int
    budget_bytes: int
    received_bytes: int
    forgiven_bytes: int
    outstanding_bytes: int
    trimmed_bytes: int
    checked_forgiven_bytes: int
    checked_trimmed_bytes: int
    trimmed_fifth_1: int
    trimmed_fifth_2: int
    trimmed_fifth_3: int
    trimmed_fifth_4: int
    trimmed_fifth_5: int
    forgiven_fifth_1: int
    forgiven_fifth_2: int
    forgiven_fifth_3: int
    forgiven_fifth_4: int
    forgiven_fifth_5: int
    forgiven: int
    refused_vesting: int
    refused_draw: int
    refused_closed: int
    late: int
    exhausted_set: int
    exhausted_cleared: int
    signals_ignored: int
    became_exempt: int
    became_obeying: int


@dataclass(frozen=True, slots=True)
class FlowRow:
    """Messages of a kind in a step. Durations: from the post to the sender's last acknowledgement.

    bytes: as sent, placeholders as such. repair_requests: NAKs that senders got. signals: congestion signals
    that rate control took. trimmed_messages: those with a repair request or a forgiven range. exempt_flows:
    exempt at some time; obeying_again_flows: of these, obeyed later. flag_changes: of the exhausted flag as
    senders saw it. exempt_ns, obeying_again_ns: sums over flows.
    """

    arm: str
    seed: int
    kind: str
    step: int
    messages: int
    bytes: int
    retransmitted_bytes: int
    forgiven_bytes: int
    repair_requests: int
    signals: int
    rate_cuts: int
    timeouts: int
    trimmed_messages: int
    exempt_flows: int
    obeying_again_flows: int
    flag_changes: int
    exempt_ns: int
    obeying_again_ns: int
    duration_sum_ns: int
    duration_median_ns: int
    duration_p99_ns: int
    duration_max_ns: int


@dataclass(frozen=True, slots=True)
class TimeRow:
    """Gradient bytes of a step so far, sums over ranks, at a moment."""

    arm: str
    seed: int
    step: int
    time_ns: int
    open_ranks: int
    budget_bytes: int
    received_bytes: int
    forgiven_bytes: int
    outstanding_bytes: int
    trimmed_bytes: int


@dataclass(frozen=True, slots=True)
class QueueRow:
    """Data queues of a kind of port since the row before, bytes of frames.

    ports: "leaf to host", "leaf to spine", "spine to leaf". largest: over ports and time; mean: of the ports'
    largest.
    """

    arm: str
    seed: int
    time_ns: int
    ports: str
    largest_bytes: int
    mean_bytes: float


@dataclass(frozen=True, slots=True)
class TotalsRow:
    """The run as a whole.

    training_ns: the last rank's last step. offered_bytes: first sends; a message that starts over (a NIC
    restarted) has two. sent_packets: repeats as well. trimmed_packets, marked_packets, lost_headers: at
    switches. trimmed_bytes, late_bytes: of headers that reached a NIC, of data that came for a forgiven
    range. reports_checked: by the checker. hops: packets over links.
    """

    arm: str
    seed: int
    steps: int
    ranks: int
    training_ns: int
    offered_bytes: int
    sent_packets: int
    retransmitted_bytes: int
    forgiven_bytes: int
    shed_bytes: int
    trimmed_bytes: int
    trimmed_packets: int
    marked_packets: int
    lost_headers: int
    late_bytes: int
    reports_checked: int
    hops: int


FILES: Mapping[str, type] = {
    "collectives": CollectiveRow,
    "steps": StepRow,
    "flows": FlowRow,
    "timeline": TimeRow,
    "queues": QueueRow,
    "totals": TotalsRow,
}

_TYPES = {"str": pl.String, "int": pl.Int64, "float": pl.Float64, "bool": pl.Boolean}


def frame(rows: Sequence[Any], kind: type) -> pl.DataFrame:
    """Rows of a dataclass above, typed even if there are none."""
    schema = {f.name: _TYPES[str(f.type)] for f in fields(kind)}
    return pl.DataFrame([asdict(row) for row in rows], schema=schema)


@dataclass(frozen=True)
class CellFiles:
    """One cell's directory, read."""

    collectives: pl.DataFrame
    steps: pl.DataFrame
    flows: pl.DataFrame
    timeline: pl.DataFrame
    queues: pl.DataFrame
    totals: pl.DataFrame
    manifest: Mapping[str, Any]


def save(directory: Path, rows: Mapping[str, Sequence[Any]], manifest: Mapping[str, Any]) -> None:
    """Write a cell's tables and its manifest. Raises OSError."""
    for name, kind in FILES.items():
        frame(rows[name], kind).write_parquet(directory / f"{name}.parquet")
    text = json.dumps(manifest, indent=2, sort_keys=True) + "\n"
    (directory / "manifest.json").write_text(text, encoding="utf-8")


def load(directory: Path) -> CellFiles:
    """Read a finished cell. Raises OSError, polars' errors."""
    tables = {name: pl.read_parquet(directory / f"{name}.parquet") for name in FILES}
    manifest = json.loads((directory / "manifest.json").read_text(encoding="utf-8"))
    return CellFiles(**tables, manifest=manifest)

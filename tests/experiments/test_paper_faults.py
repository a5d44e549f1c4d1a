# SPDX-License-Identifier: Apache-2.0
"""A cell in which links go and come, frames are lost and NICs restart keeps every promise and every byte."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from controller.experiments.paper import rows
from controller.experiments.paper.audit import Audit
from controller.experiments.paper.cell import Specification, run
from hosts.endpoint import TrafficClass
from hosts.messages import MessageKey
from profiles import Fault, FaultKind
from tests.experiments.paper_cells import SMALL
from tests.virtual.scenes import PACKET, Mailbox, configuration, running
from topologies import leaf_spine
from virtual import Exchange, FaultPlan

LONG = (
    "fabric.spines=2", "study.streams=1", "study.dp_bytes=8_000_003", "queue.data_limit_packets=40",
    "queue.kmin_packets=10", "queue.kmax_packets=30",
)  # fmt: skip
"""Gradient messages of 4 MB; while a spine is out of reach they are trimmed."""

LINKS = (
    '{at_ns=2_900_000, kind="link_down", what="leaf1-spine1", reroute=true}',
    '{at_ns=7_000_000, kind="link_up", what="leaf1-spine1", reroute=true}',
    '{at_ns=1_600_000, kind="loss", what="leaf2-spine2", ppm=2000}',
    '{at_ns=8_000_000, kind="loss", what="leaf2-spine2"}',
)

RANK, STEP = 1, 2
DURING_FIRST, DURING_SECOND = 4_250_000, 4_800_000
"""A time within each of the two messages of `STEP` to `RANK`."""


def restart(at_ns: int, what: str = "h2") -> str:
    return f'{{at_ns={at_ns}, kind="nic_restart", what="{what}"}}'


def cell(directory: Path, *faults: str) -> rows.CellFiles:
    told = f"faults=[{', '.join(faults)}]"
    run(Specification("forgive", 7, "full", "paper", (*SMALL, *LONG, told)), directory, lambda state: None)
    return rows.load(directory)


def started_over(files: rows.CellFiles) -> int:
    """Bytes sent for the first time by messages that began once more."""
    return int(files.totals["offered_bytes"][0] - files.flows["bytes"].sum())


def missing(files: rows.CellFiles) -> dict[tuple[int, int], int]:
    """By rank and step, expected bytes that the NIC does not count; negative: it counts more."""
    left = pl.col("expected_bytes") - pl.col("received_bytes") - pl.col("forgiven_bytes")
    told = files.steps.select("rank", "step", left=left).filter(pl.col("left") != 0)
    return {(rank, step): left for rank, step, left in told.iter_rows()}


def test_links_and_losses(tmp_path: Path) -> None:
    files = cell(tmp_path / "cell", *LINKS)
    assert files.manifest["violations"] == []
    assert files.flows["timeouts"].sum() > 0 and files.totals["forgiven_bytes"][0] > 0
    assert started_over(files) == 0 and missing(files) == {}


def test_a_nic_restarts_while_its_rank_is_forgiven_bytes(tmp_path: Path) -> None:
    """Packets of the first attempt that come after it make the NIC count more than the step has."""
    files = cell(tmp_path / "cell", *LINKS, restart(DURING_FIRST))
    assert files.manifest["violations"] == []
    assert started_over(files) > 0
    ((where, left),) = missing(files).items()
    assert where == (RANK, STEP) and left < 0
    # What was forgiven before the restart is in the hosts' sums, and nowhere else any more.
    counted = files.steps["forgiven_bytes"].sum()
    assert 0 < counted == files.flows["forgiven_bytes"].sum() < files.totals["forgiven_bytes"][0]


def test_a_nic_restarts_when_half_of_its_step_is_through(tmp_path: Path) -> None:
    files = cell(tmp_path / "cell", *LINKS, restart(DURING_SECOND))
    assert files.manifest["violations"] == []
    assert started_over(files) > 0
    assert missing(files) == {(RANK, STEP): 8_000_003 // 2}


def test_nics_restart_again_and_again(tmp_path: Path) -> None:
    times = range(700_000, 8_000_000, 350_000)
    files = cell(
        tmp_path / "cell", *LINKS, *(restart(at_ns, f"nic{i % 4 + 1}") for i, at_ns in enumerate(times))
    )
    assert files.manifest["violations"] == []
    assert started_over(files) > 0
    assert len(files.steps) == 4 * 4


def test_a_restart_that_the_checker_is_not_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Audit, "_restart", lambda audit, host: None)
    violations = cell(tmp_path / "cell", *LINKS, restart(DURING_FIRST)).manifest["violations"]
    assert any(f"rank {RANK}: " in line and "not_settled" in line for line in violations)
    assert any(
        line.startswith(f"rank {RANK}, step {STEP}: the NIC and the checker differ") for line in violations
    )


def test_the_checker_hears_of_a_restart_before_messages_start_over(tmp_path: Path) -> None:
    """Whichever was made first: a message that starts over is expected, and that it never came is noticed."""
    chosen = configuration()
    key, length = MessageKey(1, 0, 1, 0), 400 * PACKET
    with running(leaf_spine(1, 1, 2), chosen, tmp_path) as (net, controller):
        exchange = Exchange(net, dict(enumerate(net.host_names)), eager=True)
        with Audit(net, chosen) as audit:
            posted: list[int] = []

            def tell(key: MessageKey, qp: int) -> None:
                posted.append(qp)
                audit.posted(key, qp, length)

            exchange.on_posted = tell
            faults = [
                Fault(20_000, FaultKind.NIC_RESTART, "h2"),
                Fault(20_000, FaultKind.LINK_DOWN, "nic2-leaf1"),
            ]
            FaultPlan(net, controller, faults)
            Mailbox(exchange, 0).send(key, length, TrafficClass.DATA)
            net.clock.run(100_000)
            (line,) = audit.finish()
    assert len(posted) == 2
    assert f"not_settled: queue pair {posted[1]:#x}" in line

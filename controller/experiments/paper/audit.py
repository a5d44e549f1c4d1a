# SPDX-License-Identifier: Apache-2.0
"""An independent checker at every NIC of a simulated fabric.

It sees what enters and leaves a NIC and is told what the control plane promises; it holds every report
against the paper (hosts/core/include/checker.h). Nothing of it is the dataplane's.
"""

from __future__ import annotations

from typing import Any

from controller import StepPolicy, StepState
from controller.nic import EXEMPTION_CODES, budget_bytes
from hosts import native
from hosts.checker import Checker, CheckerStats, StepBooks, StepPromise
from hosts.messages import STEP_SLOTS, MessageKey
from profiles import Configuration
from topologies import NIC_HOST_PORT, NIC_WIRE_PORT
from topologies.model import Port
from virtual import VirtualFabric

KEPT = 20
"""Violations of a NIC that are described; the others are counted."""


class Audit:
    """Checkers of all NICs, from before the first packet. A context: it leaves the NICs at its end.

    The fabric's ranks are its hosts in order.
    """

    def __init__(self, fabric: VirtualFabric, configuration: Configuration) -> None:
        dscp = configuration.dscp
        self._fabric = fabric
        self._policy = StepPolicy.of(configuration)
        self._payload_bytes = configuration.wire.payload_bytes
        self._hosts = fabric.topology.hosts
        self._installed: list[set[int]] = [set() for _ in self._hosts]
        self.restarted: set[tuple[int, int]] = set()
        """(rank, step) of the steps that were installed in a NIC when it restarted. Its byte state and the
        books of such a step are of what came since, and must agree; but they are not the whole step: messages
        that were through by then are missing, and packets of first attempts that were still on their way are
        counted beside the messages that started over. So what was received and forgiven there need not be
        what was expected. Hosts have the bytes of both attempts, and their sums are held against both.
        """
        self._checkers = [
            Checker(
                gradient_dscp=dscp.gradient,
                gradient_trimmed_dscp=dscp.gradient_trimmed,
                data_trimmed_dscp=dscp.data_trimmed,
                notification_interval_us=configuration.budget.notification_interval_us,
                kept=KEPT,
            )
            for _ in self._hosts
        ]
        ffi, lib = native.load()

        def address(pointer: Any) -> int:
            return int(ffi.cast("uintptr_t", pointer))

        self._watched: list[tuple[str, int]] = []
        for host, checker in zip(self._hosts, self._checkers, strict=True):
            for number, name in ((NIC_WIRE_PORT, "checker_wire"), (NIC_HOST_PORT, "checker_host")):
                interface, context = Port(host.nic, number).interface, address(checker.handle)
                fabric.observe(interface, address(ffi.addressof(lib, name)), context)
                self._watched.append((interface, context))
        # Before messages start over: those on new queue pairs are of after the restart.
        fabric.on_restart.insert(0, self._restart)

    def __enter__(self) -> Audit:
        return self

    def __exit__(self, *_: object) -> None:
        self._fabric.on_restart.remove(self._restart)
        while self._watched:
            self._fabric.ignore(*self._watched.pop())
        for checker in self._checkers:
            checker.close()

    # --- what is promised

    def posted(self, key: MessageKey, qp: int, length_bytes: int) -> None:
        """A message will come on this queue pair of its destination."""
        self._checkers[key.destination].expect(qp, length_bytes)

    def open(self, rank: int, step: int, p_ppm: int, expected_bytes: int) -> None:
        policy = self._policy
        promise = StepPromise(
            step_tag=step + 1,
            p_ppm=p_ppm,
            expected_bytes=expected_bytes,
            budget_bytes=budget_bytes(p_ppm, expected_bytes),
            packet_bytes=policy.packet_bytes,
            forgive_threshold=policy.forgive_threshold,
            vesting=policy.vesting,
            exemption=EXEMPTION_CODES[policy.exemption],
            eligible=policy.eligible,
            notification_interval_us=policy.notification_interval_us,
            forgiveness_echoes=policy.forgiveness_echoes,
            trimmed_starts_flow=policy.trimmed_starts_flow,
        )
        self._installed[rank].add(step)
        self._checkers[rank].set_step(self._fabric.clock.now_ns, step % STEP_SLOTS, promise)

    def close(self, rank: int, step: int) -> None:
        self._checkers[rank].close_step(self._fabric.clock.now_ns, step % STEP_SLOTS)

    def remove(self, rank: int, step: int) -> None:
        self._installed[rank].discard(step)
        self._checkers[rank].remove_step(self._fabric.clock.now_ns, step % STEP_SLOTS)

    def _restart(self, host: str) -> None:
        rank = self._fabric.number(host)
        self._checkers[rank].restart(self._fabric.clock.now_ns)
        self.restarted.update((rank, step) for step in self._installed[rank])

    # --- what was seen

    def books(self, rank: int, step: int) -> StepBooks:
        """The checker's own count of a step, of which no later one has used the slot."""
        return self._checkers[rank].step(step % STEP_SLOTS)

    def differences(self, rank: int, step: int, state: StepState) -> list[str]:
        """Where a NIC's byte state and the books of its step differ, a line each; none of the step's messages
        is in flight.
        """
        books = self.books(rank, step)
        # Packets of first attempts may wait in the NIC, counted there, and not yet here.
        waiting = self._checkers[rank].stats().pending if (rank, step) in self.restarted else 0
        lines = []
        for what, said, counted, more in (
            ("received", state.received, books.received_bytes, waiting * self._payload_bytes),
            ("forgiven", state.forgiven, books.forgiven_bytes, 0),
            ("outstanding", state.outstanding, books.outstanding_bytes, 0),
        ):
            if not counted <= said <= counted + more:
                lines.append(
                    f"rank {rank}, step {step}: the NIC and the checker differ on {what} bytes: "
                    f"{said} and {counted}"
                )
        return lines

    def stats(self) -> list[CheckerStats]:
        """By rank."""
        return [checker.stats() for checker in self._checkers]

    def finish(self) -> list[str]:
        """After the run: what was broken, a line each."""
        lines = []
        for rank, checker in enumerate(self._checkers):
            count = checker.finish(self._fabric.clock.now_ns)
            lines += [f"rank {rank}: {violation.text}" for violation in checker.violations()]
            if count > KEPT:
                lines.append(f"rank {rank}: {count} violations in all: {checker.stats().by_kind}")
        return lines

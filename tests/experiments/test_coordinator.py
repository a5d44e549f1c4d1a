# SPDX-License-Identifier: Apache-2.0
"""The order that the protocol needs, seen from hosts on the other end of the socket."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest

from controller.experiments.coordinator import Coordinator, RunError, StepBytes
from hosts.coordination import (
    Bye,
    Go,
    Hello,
    Message,
    MessageError,
    Offer,
    ReceiveDone,
    StepBegin,
    StepDone,
    Trouble,
    decode,
    encode,
)

HOSTS = ("h1", "h2", "h3")


class Log:
    """Budgets and progress that write down what happens, in order."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.slow = asyncio.Event()
        self.slow.set()

    async def open_step(self, begin: StepBegin) -> tuple[int, int]:
        if begin.host == "h2":
            await self.slow.wait()
        self.lines.append(f"open {begin.host} {begin.step}")
        return 5000, begin.expected_bytes // 200

    async def close_step(self, host: str, step: int) -> None:
        self.lines.append(f"close {host} {step}")

    async def end_step(self, host: str, step: int) -> StepBytes:
        self.lines.append(f"end {host} {step}")
        return StepBytes(1, 2, 3, 4, {})

    def step_done(self, step: int, begins: Iterable[StepBegin], dones: Iterable[StepDone]) -> None:
        self.lines.append(f"done {step} {len(list(begins))} {len(list(dones))}")


def begin(host: str, step: int) -> StepBegin:
    offers = {other: [Offer(f"{step}.{other}.{host}.0", 7, 100, True)] for other in HOSTS if other != host}
    return StepBegin(host, step, False, 1.0, 0.1, 1000, offers)


def done(host: str, step: int) -> StepDone:
    return StepDone(host, step, 10, 20, [5], 0, 0, [], 100, 0, 0, 0, 0, 0.5)


class Host:
    """One host's end of the line."""

    def __init__(self, name: str, path: Path) -> None:
        self.name, self.path = name, path

    async def connect(self) -> None:
        self.reader, self.writer = await asyncio.open_unix_connection(str(self.path))
        self.say(Hello(self.name))

    def say(self, message: Message) -> None:
        self.writer.write(encode(message))

    async def go(self) -> Go:
        message = decode(await asyncio.wait_for(self.reader.readline(), 5))
        assert isinstance(message, Go)
        return message

    async def run(self, steps: int, log: Log) -> None:
        for step in range(1, steps + 1):
            self.say(begin(self.name, step))
            go = await self.go()
            log.lines.append(f"go {self.name} {step}")
            assert go.step == step
            assert set(go.queue_pairs) == {f"{step}.{self.name}.{o}.0" for o in HOSTS if o != self.name}
            self.say(ReceiveDone(self.name, step, 20))
            self.say(done(self.name, step))
        self.say(Bye(self.name, 0.9, 0.1))


def lead(log: Log) -> Coordinator:
    return Coordinator(frozenset(HOSTS), frozenset({"h1", "h2"}), log, log)


async def play(tmp_path: Path, steps: int, log: Log) -> Coordinator:
    coordinator, hosts = lead(log), [Host(n, tmp_path / "s") for n in HOSTS]
    async with await coordinator.serve(tmp_path / "s"):
        for host in hosts:
            await host.connect()
        await asyncio.gather(coordinator.run(5), *(host.run(steps, log) for host in hosts))
        await coordinator.close()
    return coordinator


def test_nobody_sends_before_every_budget_is_installed(tmp_path: Path) -> None:
    async def scenario() -> Log:
        log = Log()
        log.slow.clear()
        task = asyncio.create_task(play(tmp_path, 1, log))
        await asyncio.sleep(0.2)
        assert log.lines == ["open h1 1"]
        log.slow.set()
        await task
        return log

    lines = asyncio.run(scenario()).lines
    assert lines.index("open h2 1") < min(i for i, line in enumerate(lines) if line.startswith("go"))


def test_steps_are_closed_then_read_and_only_then_the_next_begins(tmp_path: Path) -> None:
    log = Log()
    coordinator = asyncio.run(play(tmp_path, 3, log))
    for step in (1, 2, 3):
        for host in ("h1", "h2"):
            assert log.lines.index(f"close {host} {step}") < log.lines.index(f"end {host} {step}")
        assert log.lines.index(f"end h2 {step}") < log.lines.index(f"done {step} 3 3")
        if step < 3:
            assert log.lines.index(f"done {step} 3 3") < log.lines.index(f"go h1 {step + 1}")
    assert not any(line.startswith(("open h3", "close h3")) for line in log.lines)
    assert len(coordinator.outcomes) == 9
    assert {o.budget for o in coordinator.outcomes if o.begin.host == "h1"} == {5}


def test_a_host_in_trouble_ends_the_run_by_name(tmp_path: Path) -> None:
    async def scenario() -> None:
        coordinator, host = lead(Log()), Host("h2", tmp_path / "s")
        async with await coordinator.serve(tmp_path / "s"):
            await host.connect()
            host.say(Trouble("h2", "message 1.2.1.0 failed after 9 timeouts"))
            await coordinator.run(5)

    with pytest.raises(RunError, match=r"h2: message 1\.2\.1\.0 failed"):
        asyncio.run(scenario())


def test_a_host_that_hangs_up_ends_the_run(tmp_path: Path) -> None:
    async def scenario() -> None:
        coordinator, host = lead(Log()), Host("h1", tmp_path / "s")
        async with await coordinator.serve(tmp_path / "s"):
            await host.connect()
            await host.writer.drain()
            host.writer.close()
            await coordinator.run(5)

    with pytest.raises(RunError, match="h1: its process ended"):
        asyncio.run(scenario())


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ([done("h1", 1)], "h1: said done of step 1 out of order"),
        ([ReceiveDone("h2", 3, 5)], "h2: said received of step 3"),
        ([begin("h1", 1), begin("h1", 1)], "h1: said begin of step 1"),
        ([begin("h9", 1)], "h9: said begin of step 1"),
        ([begin("h1", 1), done("h2", 1)], "h2: said done of step 1"),
    ],
)
def test_what_is_said_out_of_order_ends_the_run(tmp_path: Path, said: list[Message], words: str) -> None:
    async def scenario() -> None:
        coordinator, host = lead(Log()), Host("h1", tmp_path / "s")
        async with await coordinator.serve(tmp_path / "s"):
            await host.connect()
            for message in said:
                host.say(message)
            await coordinator.run(5)

    with pytest.raises(RunError, match=words):
        asyncio.run(scenario())


@pytest.mark.parametrize("line", [b"not a message\n", b"x" * (5 << 20)])
def test_a_line_that_is_no_message_ends_the_run(tmp_path: Path, line: bytes) -> None:
    async def scenario() -> None:
        coordinator, host = lead(Log()), Host("h1", tmp_path / "s")
        async with await coordinator.serve(tmp_path / "s"):
            await host.connect()
            host.writer.write(line)
            await coordinator.run(5)

    with pytest.raises(RunError, match="h1: "):
        asyncio.run(scenario())


def test_the_reason_wins_over_the_hang_up(tmp_path: Path) -> None:
    async def scenario() -> None:
        coordinator, host = lead(Log()), Host("h1", tmp_path / "s")
        async with await coordinator.serve(tmp_path / "s"):
            await host.connect()
            await host.writer.drain()
            host.writer.close()
            running = asyncio.create_task(coordinator.run(5))
            await asyncio.sleep(0.2)
            coordinator.failed("h1: its process was ended by signal 11")
            await running

    with pytest.raises(RunError, match="signal 11"):
        asyncio.run(scenario())


def test_a_failed_budget_ends_the_run_and_leaves_no_task(tmp_path: Path) -> None:
    class Broken(Log):
        async def open_step(self, begin: StepBegin) -> tuple[int, int]:
            if begin.host == "h1":
                raise RunError("nic1: refused")
            await asyncio.sleep(60)
            return 0, 0

    async def scenario() -> None:
        log = Broken()
        try:
            await play(tmp_path, 1, log)
        finally:
            names = {t.get_coro().__qualname__ for t in asyncio.all_tasks()}  # type: ignore[union-attr]
            assert not any("open_step" in name for name in names), names

    with pytest.raises(RunError, match="nic1: refused"):
        asyncio.run(scenario())


def test_silence_names_who_is_waited_for(tmp_path: Path) -> None:
    async def scenario() -> None:
        await lead(Log()).run(0.05)

    with pytest.raises(RunError, match="h1, h2, h3"):
        asyncio.run(scenario())


@pytest.mark.parametrize(
    "message",
    [
        Hello("h1"),
        begin("h1", 2),
        Go(3, {"a": 1}),
        ReceiveDone("h2", 1, 5),
        done("h1", 1),
        Bye("h1", 0.5, 1.0),
    ],
    ids=lambda m: m.kind,
)
def test_messages_survive_the_line(message: Message) -> None:
    assert decode(encode(message)) == message


@pytest.mark.parametrize(
    "line", [b"", b"{}", b"[]", b"1", b'{"kind": "go"}', b'{"kind": "nothing"}', b"\xff"]
)
def test_what_is_no_message_is_refused(line: bytes) -> None:
    with pytest.raises(MessageError, match="not a message"):
        decode(line)

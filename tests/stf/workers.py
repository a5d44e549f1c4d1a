# SPDX-License-Identifier: Apache-2.0
"""Runs cases in processes of their own: one that crashes or hangs fails alone."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import queue
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Literal, TypeAlias

from tests.stf.cases import Case
from tests.stf.compiling import CompileFailure, compile_program
from tests.stf.dut import Dut, DutError
from tests.stf.language import StfError
from tests.stf.reader import read_file
from tests.stf.session import CaseFailure, ports_of, run

Stage: TypeAlias = Literal["", "stf", "compile", "load", "run", "timeout", "crash"]


@dataclass(frozen=True, slots=True)
class Settings:
    """target: "embedded" or "bmv2"; compiler: "p4c" or "own"; timeout_s: of each case."""

    target: str
    compiler: str
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """`stage`: where the case failed, "" if it passed. `reason`: one line."""

    name: str
    stage: Stage = ""
    reason: str = ""

    @property
    def passed(self) -> bool:
        return not self.stage


def run_case(case: Case, settings: Settings) -> Outcome:
    """One case, in this process and without a timeout."""
    try:
        commands = read_file(case.script)
    except StfError as error:
        return _failed(case, "stf", error)
    try:
        program = compile_program(case.program, settings.compiler)
    except CompileFailure as error:
        return _failed(case, "compile", error)
    try:
        dut = _open(settings.target, program, ports_of(commands))
    except DutError as error:
        return _failed(case, "load", error)
    try:
        run(json.loads(program), dut, commands)
    except CaseFailure as error:
        return _failed(case, "run", error)
    finally:
        dut.close()
    return Outcome(case.name)


def _open(target: str, program: str, ports: Sequence[int]) -> Dut:
    if target == "bmv2":
        from tests.stf.bmv2 import Bmv2Dut

        return Bmv2Dut(program, ports)
    from tests.stf.embedded import EmbeddedDut

    return EmbeddedDut(program, ports)


def _failed(case: Case, stage: Stage, error: object) -> Outcome:
    return Outcome(case.name, stage, " ".join(str(error).split()))


# --- processes


def _serve(pipe: Connection, settings: Settings) -> None:
    # A group of its own, so that what a case started ends with it.
    os.setsid()
    while True:
        try:
            case: Case | None = pipe.recv()
        except EOFError:
            return
        if case is None:
            return
        try:
            outcome = run_case(case, settings)
        except Exception as error:
            outcome = Outcome(case.name, "crash", f"{type(error).__name__}: {' '.join(str(error).split())}")
        pipe.send(outcome)


class Worker:
    """A process that runs one case after the other. A new one takes its place when it dies."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None

    def run(self, case: Case) -> Outcome:
        pipe = self._started()
        try:
            pipe.send(case)
            if pipe.poll(self._settings.timeout_s):
                outcome: Outcome = pipe.recv()
                return outcome
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return Outcome(case.name, "crash", f"the process died ({self._end()})")
        self._end()
        return Outcome(case.name, "timeout", f"not done after {self._settings.timeout_s:g} s")

    def _started(self) -> Connection:
        if self._pipe is None:
            context = multiprocessing.get_context("spawn")
            self._pipe, theirs = context.Pipe()
            self._process = context.Process(target=_serve, args=(theirs, self._settings), daemon=False)
            self._process.start()
            theirs.close()
        return self._pipe

    def _end(self) -> str:
        """Kill the process and all that it started. How it had ended, if it had."""
        process, pipe = self._process, self._pipe
        self._process = self._pipe = None
        if process is None or pipe is None or process.pid is None:
            return "not started"
        process.join(0.2)
        code = process.exitcode
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.join()
        pipe.close()
        if code is None:
            return "killed"
        return signal.Signals(-code).name if code < 0 else f"status {code}"

    def close(self) -> None:
        self._end()


def run_cases(cases: Sequence[Case], settings: Settings, jobs: int) -> Iterator[Outcome]:
    """Outcomes as they come. `jobs`: processes at a time."""
    idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
    workers = [Worker(settings) for _ in range(jobs)]
    for worker in workers:
        idle.put(worker)

    def run_on_any(case: Case) -> Outcome:
        worker = idle.get()
        try:
            return worker.run(case)
        finally:
            idle.put(worker)

    pool = ThreadPoolExecutor(jobs)
    try:
        for future in as_completed([pool.submit(run_on_any, case) for case in cases]):
            yield future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.close()
        pool.shutdown(wait=True)

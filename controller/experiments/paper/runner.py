# SPDX-License-Identifier: Apache-2.0
"""Runs cells side by side, each in a process of its own, and says how far they are."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from controller.experiments.paper.cell import Specification, finished
from controller.experiments.paper.estimate import seconds_left, shown


class FailedError(RuntimeError):
    """A cell that could not be run. One line."""


class Runner:
    """Cells side by side, each in a process of its own.

    cells: with the directory of each. jobs: how many at once.
    """

    def __init__(self, cells: Mapping[Specification, Path], jobs: int, console: Console) -> None:
        self._cells = cells
        self._jobs = jobs
        self._console = console
        self._failed: list[str] = []
        self._began: dict[str, float] = {}
        self._share: dict[str, float] = {}
        self._took: list[float] = []

    def run(self) -> None:
        """All cells that are not finished. Raises FailedError."""
        todo = []
        for cell, directory in self._cells.items():
            manifest = finished(directory)
            if manifest is None:
                todo.append(cell)
            else:
                self._took.append(float(manifest["seconds"]["wall"]))
        done = len(self._cells) - len(todo)
        if done:
            self._console.print(f"{done} of {len(self._cells)} cells are finished already")
        if todo:
            asyncio.run(self._all(todo))
        if self._failed:
            raise FailedError("; ".join(self._failed))

    async def _all(self, todo: Sequence[Specification]) -> None:
        waiting = list(todo)
        bars = Progress(
            TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:3.0f} %"),
            TimeElapsedColumn(), TextColumn("{task.fields[note]}"), console=self._console,
        )  # fmt: skip
        with bars:
            whole = bars.add_task("all cells", total=len(todo), note="no estimate yet")

            def refresh() -> str:
                running = {n: (self._share[n], time.monotonic() - self._began[n]) for n in self._began}
                left = seconds_left(self._took, running, len(waiting), self._jobs)
                finished_ones = len(todo) - len(waiting) - len(running)
                bars.update(whole, completed=finished_ones + sum(self._share.values()), note=shown(left))
                return shown(left)

            async def worker() -> None:
                while waiting and not self._failed:
                    cell = waiting.pop(0)
                    task = bars.add_task(cell.name, total=1.0, note="")
                    said = await self._one(cell, bars, task, refresh)
                    bars.remove_task(task)
                    bars.console.print(f"{said}; {refresh()}" if said else self._failed[-1])

            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._jobs, len(todo))):
                    group.create_task(worker())

    async def _one(
        self, cell: Specification, bars: Progress, task: TaskID, refresh: Callable[[], object]
    ) -> str | None:
        """Run one; what there is to say of it, None if it failed."""
        directory = self._cells[cell]
        directory.parent.mkdir(parents=True, exist_ok=True)
        told = directory.parent / f".{cell.name}.json"
        told.write_text(json.dumps({"specification": asdict(cell), "directory": str(directory)}))
        self._began[cell.name], self._share[cell.name] = time.monotonic(), 0.0
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "controller.experiments.paper.cell", str(told),
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            cwd=Path(__file__).parents[3], start_new_session=True,
        )  # fmt: skip
        assert process.stdout is not None and process.stderr is not None
        errors = asyncio.create_task(process.stderr.read())
        try:
            async for line in process.stdout:
                state = json.loads(line)
                self._share[cell.name] = float(state["done"])
                note = f"{state['simulated_ns'] / 1e6:.0f} ms simulated"
                bars.update(task, completed=self._share[cell.name], note=note)
                refresh()
            await process.wait()
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)  # it removes what it has begun
            await process.wait()
            raise
        finally:
            told.unlink(missing_ok=True)
            took = time.monotonic() - self._began.pop(cell.name)
            del self._share[cell.name]
        if process.returncode:
            lines = (await errors).decode(errors="replace").strip().splitlines()
            self._failed.append(lines[-1] if lines else f"{cell.name}: ended with {process.returncode}")
            return None
        errors.cancel()
        self._took.append(took)
        manifest = finished(directory)
        assert manifest is not None
        broken = len(manifest["violations"])
        said = f"{cell.name}: {took:.0f} s, {manifest['seconds']['cpu']:.0f} s of CPU"
        return said + (f", {broken} violations" if broken else "")

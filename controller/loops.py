# SPDX-License-Identifier: Apache-2.0
"""Event loops in threads of their own, lent to one user at a time and never closed.

gRPC hands each event to the loop that waits for it, also after that loop was closed: a process that closes
loops one after the other, with one connection after the other, gets errors for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading

LAST_SECONDS = 10.0

_idle: list[asyncio.AbstractEventLoop] = []
_lock = threading.Lock()


def borrow(name: str) -> asyncio.AbstractEventLoop:
    """A loop that runs in a thread. Give it back."""
    with _lock:
        if _idle:
            return _idle.pop()
    loop = asyncio.new_event_loop()
    threading.Thread(target=_run, args=(loop,), name=name, daemon=True).start()
    return loop


def give_back(loop: asyncio.AbstractEventLoop) -> None:
    """What still runs on it is cancelled first: an interrupted call may have left work behind."""
    with contextlib.suppress(TimeoutError):
        asyncio.run_coroutine_threadsafe(_cancel_all(), loop).result(LAST_SECONDS)
    with _lock:
        _idle.append(loop)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()


async def _cancel_all() -> None:
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

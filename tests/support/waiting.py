"""Waiting for events that must happen, on a machine that may be busy."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")

PATIENCE = 60.0
"""Seconds after which a test gives up waiting. No test asserts that anything is faster."""
_TURN = 0.05
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.01, 0.1


async def eventually(check: Callable[[], Awaitable[Any]], *, timeout: float = PATIENCE) -> Any:
    """Call `check` until it returns a true value, and return that. Raises TimeoutError."""
    pause = _SHORTEST_PAUSE
    async with asyncio.timeout(timeout):
        while not (result := await check()):  # it asks a database or a process
            await asyncio.sleep(pause)
            pause = min(1.5 * pause, _LONGEST_PAUSE)
        return result


async def within(seconds: float, awaited: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of `awaited`, which must end within `seconds` in which the event loop runs.
    Time in which the machine gives its processors to others does not count.

    Raises TimeoutError.
    """
    task = asyncio.ensure_future(awaited)
    try:
        for _ in range(round(seconds / _TURN)):
            done, _ = await asyncio.wait({task}, timeout=_TURN)
            if done:
                return await task
    finally:
        task.cancel()
    raise TimeoutError(f"The coroutine did not end within {seconds} s.")

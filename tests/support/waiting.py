"""Waiting for what has to come, on a machine that may be busy with anything."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Answer = TypeVar("Answer")

# Seconds after which what has not come will not. Nothing is asserted about how long it takes.
PATIENCE = 60.0

_TURN = 0.05


async def within(seconds: float, awaited: Coroutine[Any, Any, Answer]) -> Answer:
    """What `awaited` returns, which has to be within `seconds` of the event loop's own time: while
    the machine gives its processors to others the loop does not turn, and that does not count.

    Raises TimeoutError where it does not end.
    """
    task = asyncio.ensure_future(awaited)
    try:
        for _ in range(round(seconds / _TURN)):
            done, _ = await asyncio.wait({task}, timeout=_TURN)
            if done:
                return await task
    finally:
        task.cancel()
    raise TimeoutError(f"It did not end within {seconds} s.")

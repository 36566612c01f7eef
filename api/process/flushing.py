"""Writing now and then what a process has gathered in memory."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable


@contextlib.asynccontextmanager
async def flushing(
    write: Callable[[], Awaitable[None]], *, seconds: float, name: str
) -> AsyncIterator[None]:
    """While the block runs, `write` every so many seconds, and once more at its end. It is not cut
    short: what it took out of memory would be lost. `name` is the task's; `write` handles its own
    errors, or the first one ends the writing and is raised at the end of the block."""
    ended = asyncio.Event()

    async def until_ended() -> None:
        is_last = False
        while not is_last:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await ended.wait()
            is_last = ended.is_set()  # before: what comes during a writing needs one more
            await write()

    task = asyncio.create_task(until_ended(), name=name)
    try:
        yield
    finally:
        ended.set()
        await task

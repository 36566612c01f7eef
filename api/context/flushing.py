"""Work that is repeated while a process runs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable


@contextlib.asynccontextmanager
async def flushing(
    write: Callable[[], Awaitable[None]], *, seconds: float, name: str
) -> AsyncIterator[None]:
    """Call `write` every `seconds` while the block runs, and once more at its end.

    A call is never cancelled: data that it took out of memory would be lost. `name` is the name of
    the task. If `write` raises, the writing stops and the error is raised at the end of the block.
    """
    ended = asyncio.Event()

    async def until_ended() -> None:
        is_last = False
        while not is_last:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await ended.wait()
            is_last = ended.is_set()  # read before writing: data added during it needs one more
            await write()

    task = asyncio.create_task(until_ended(), name=name)
    try:
        yield
    finally:
        ended.set()
        await task

"""Telling Temporal that an activity's worker lives, so that its death is noticed within seconds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from temporalio import activity

_EVERY_SECONDS = 4.0


@asynccontextmanager
async def heartbeat() -> AsyncIterator[None]:
    """Beat for as long as the block lasts, whatever it waits for. A local activity has no need: its
    worker's death is its workflow task's."""
    if activity.info().is_local:
        yield
        return

    async def beat() -> None:
        while True:
            await asyncio.sleep(_EVERY_SECONDS)
            activity.heartbeat()

    task = asyncio.create_task(beat(), name="heartbeat")
    try:
        yield
    finally:
        task.cancel()

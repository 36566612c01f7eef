"""Telling Temporal that an activity's worker lives, so that its death is noticed within seconds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from temporalio import activity

from hookfast.deliveries.time_budget import HEARTBEAT

_EVERY_SECONDS = 4.0


class Pulse:
    """The heartbeats of one activity."""

    def __init__(self) -> None:
        self._last = asyncio.get_running_loop().time()
        self._lost = False

    def beat(self) -> None:
        """Tell Temporal."""
        self._lost = self.lost
        self._last = asyncio.get_running_loop().time()
        activity.heartbeat()

    @property
    def lost(self) -> bool:
        """Whether Temporal has waited too long for a beat (this process was frozen, say), so that
        another worker may do the same by now."""
        silent = asyncio.get_running_loop().time() - self._last
        return self._lost or silent > HEARTBEAT.total_seconds()


@asynccontextmanager
async def heartbeat() -> AsyncIterator[Pulse]:
    """Beat for as long as the block lasts, whatever it waits for. A local activity has no need: its
    worker's death is its workflow task's."""
    pulse = Pulse()
    if activity.info().is_local:
        yield pulse
        return

    async def beat() -> None:
        while True:
            await asyncio.sleep(_EVERY_SECONDS)
            pulse.beat()

    task = asyncio.create_task(beat(), name="heartbeat")
    try:
        yield pulse
    finally:
        task.cancel()

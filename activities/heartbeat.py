"""Heartbeats, by which Temporal notices within seconds that an activity's worker has died, and the
time that an activity has left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Final

from temporalio import activity

from hookfast.clock import Clock, utc_now
from hookfast.deliveries.life import Life
from hookfast.deliveries.time_budget import HEARTBEAT

_EVERY_SECONDS = 4.0


class Heartbeats:
    """The heartbeats of one activity."""

    def __init__(self) -> None:
        self._last = asyncio.get_running_loop().time()
        self._lost = False

    def beat(self) -> None:
        """Send one to Temporal."""
        self._lost = self.lost
        self._last = asyncio.get_running_loop().time()
        activity.heartbeat()

    @property
    def lost(self) -> bool:
        """Whether Temporal has waited too long for a heartbeat, for example because this process
        was frozen. Another worker may be doing the same by now."""
        silent = asyncio.get_running_loop().time() - self._last
        return self._lost or silent > HEARTBEAT.total_seconds()


class TimeLeft:
    """How much of the time that Temporal gives the current activity is left. For an attempt that
    the activity makes, it is the lease (`activities.attempt`).

    Create it first thing in the activity. It uses the event loop's clock, because the clocks of two
    machines differ. A local activity's time runs from when this process scheduled it, so one that
    waited for a slot has less. `now` is the time of day.
    """

    in_batch: Final = False

    def __init__(self, heartbeats: Heartbeats, *, now: Clock = utc_now) -> None:
        self.now = now
        self._heartbeats = heartbeats
        info = activity.info()
        allowed = info.start_to_close_timeout
        if info.is_local and info.schedule_to_close_timeout is not None:
            waited = max(timedelta(0), datetime.now(UTC) - info.scheduled_time)
            allowed = info.schedule_to_close_timeout - waited
        loop = asyncio.get_running_loop()
        self._ends_at = None if allowed is None else loop.time() + allowed.total_seconds()

    def fits(self, seconds: float) -> bool:
        """Whether something that takes this long ends before Temporal gives the activity up and
        starts it again."""
        if self._heartbeats.lost:
            return False
        return self._ends_at is None or asyncio.get_running_loop().time() + seconds <= self._ends_at

    def still_owns(self, life: Life) -> bool:
        """Whether the delivery is still this activity's to attempt: always, while it has time."""
        return True

    def answered(self) -> None:
        """Note that the request has ended: nobody waits for that."""


@asynccontextmanager
async def heartbeat() -> AsyncIterator[Heartbeats]:
    """Send heartbeats while the block runs. A local activity sends none: Temporal notices its
    worker's death by the workflow task."""
    heartbeats = Heartbeats()
    if activity.info().is_local:
        yield heartbeats
        return

    async def beat() -> None:
        while True:
            await asyncio.sleep(_EVERY_SECONDS)
            heartbeats.beat()

    task = asyncio.create_task(beat(), name="heartbeat")
    try:
        yield heartbeats
    finally:
        task.cancel()

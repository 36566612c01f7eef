"""How much is left of the time that Temporal gives an activity."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from temporalio import activity

from activities.heartbeat import Pulse


class TimeLeft:
    """Of the activity that makes it, as its first act. In the event loop's time: clocks of two
    machines differ. A local activity's time runs from when it was scheduled, by this process: one
    that waited for a slot has that much less."""

    def __init__(self, pulse: Pulse) -> None:
        self._pulse = pulse
        info = activity.info()
        allowed = info.start_to_close_timeout
        if info.is_local and info.schedule_to_close_timeout is not None:
            waited = max(timedelta(0), datetime.now(UTC) - info.scheduled_time)
            allowed = info.schedule_to_close_timeout - waited
        now = asyncio.get_running_loop().time()
        self._ends_at = None if allowed is None else now + allowed.total_seconds()

    def fits(self, seconds: float) -> bool:
        """Whether what takes so long is done before Temporal gives the activity up, and has it done
        once more."""
        if self._pulse.lost:
            return False
        return self._ends_at is None or asyncio.get_running_loop().time() + seconds <= self._ends_at

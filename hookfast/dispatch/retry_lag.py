"""How late due retries run on this worker. The relay takes fewer new deliveries while they do."""

from __future__ import annotations

import time
from datetime import timedelta

from hookfast.telemetry import instruments

_FORGET_SECONDS = 10.0
LATE = timedelta(seconds=1)
"""Retries that start later than this are late: more than a timer and a busy moment explain."""


class RetryLag:
    """Notes how late retries start. One per worker process."""

    def __init__(self) -> None:
        self._late_at = -_FORGET_SECONDS

    def note(self, late: timedelta) -> None:
        """Note that a retry started this long after it was due."""
        instruments.RETRY_LATENESS.record(late.total_seconds())
        if late > LATE:
            self._late_at = time.monotonic()

    @property
    def is_late(self) -> bool:
        """Whether a retry was late within the last ten seconds."""
        return time.monotonic() - self._late_at < _FORGET_SECONDS

"""The daily activity: notify owners of the dead letters of the last 24 hours."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from temporalio import activity

from hookfast.clock import Clock, rfc3339, utc_now
from hookfast.owners.notice import NoticeKind
from hookfast.retention.daily import Summarised
from hookfast.storage.database.engine import Database
from hookfast.storage.owners import notices
from hookfast.storage.retention import daily_dead_letters

_DAY = timedelta(days=1)
_ENDPOINTS_AT_ONCE = 100
"""Endpoints per transaction: on SQLite, deliveries wait for it."""


class DailyActivities:
    """The activities of `DailyWorkflow`. One per worker process."""

    def __init__(self, *, database: Database, clock: Clock = utc_now) -> None:
        self._database = database
        self._clock = clock

    @property
    def all(self) -> list[Callable[..., Any]]:
        """Every activity, for the worker."""
        return [self.summarise_dead_letters]

    @activity.defn(name="summarise_dead_letters")
    async def summarise_dead_letters(self) -> Summarised:
        """Add a notice of the last 24 hours' dead letters, once per endpoint and day."""
        now = self._clock()
        async with self._database.read() as connection:
            counts = await daily_dead_letters.count_by_endpoint(connection, since=now - _DAY)
        added = 0
        for start in range(0, len(counts), _ENDPOINTS_AT_ONCE):
            async with self._database.write() as connection:
                for one in counts[start : start + _ENDPOINTS_AT_ONCE]:
                    added += await notices.add(
                        connection,
                        endpoint_id=one.endpoint_id,
                        episode=now.toordinal(),  # the day: a second try adds nothing
                        kind=NoticeKind.DEAD_LETTERS,
                        facts={
                            "dead": one.dead,
                            "since": rfc3339(one.first_at),
                            "last_error": one.last_error,
                        },
                        at=now,
                    )
            activity.heartbeat(start)
        return Summarised(endpoints=len(counts), notices=added)

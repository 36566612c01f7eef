"""What is done once a day: the summary of dead letters for owners, and the end of old ones."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from temporalio import activity

from hookfast.clock import Clock, rfc3339, utc_now
from hookfast.notice import NoticeKind
from hookfast.storage import dead_letter_upkeep, notices
from hookfast.storage.engine import Database
from hookfast.upkeep import Expired, Summarised

_DAY = timedelta(days=1)
_ENDPOINTS_AT_ONCE = 100
_DELIVERIES_AT_ONCE = 500
"""How much goes into one transaction: on SQLite, deliveries wait for it."""


class UpkeepActivities:
    """The activities of the daily upkeep. One per worker process."""

    def __init__(
        self, *, database: Database, dead_letter_retention: timedelta, clock: Clock = utc_now
    ) -> None:
        self._database = database
        self._retention = dead_letter_retention
        self._clock = clock

    @property
    def all(self) -> list[Callable[..., Any]]:
        """What a worker registers."""
        return [self.summarise_dead_letters, self.expire_dead_letters]

    @activity.defn(name="summarise_dead_letters")
    async def summarise_dead_letters(self) -> Summarised:
        """Have the owners told of the last 24 hours' dead letters, once per endpoint and day."""
        now = self._clock()
        async with self._database.read() as connection:
            counts = await dead_letter_upkeep.count_by_endpoint(connection, since=now - _DAY)
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

    @activity.defn(name="expire_dead_letters")
    async def expire_dead_letters(self) -> Expired:
        """Delete the dead letters that are older than is kept, with their attempts. The counts are
        those of the try that came to the end. Only for runs that began before retention did it."""
        if not self._retention:
            return Expired()
        finished_before = self._clock() - self._retention
        deliveries = attempts = 0
        while True:
            async with self._database.write() as connection:
                some, their_attempts = await dead_letter_upkeep.expire(
                    connection, finished_before=finished_before, limit=_DELIVERIES_AT_ONCE
                )
            deliveries += some
            attempts += their_attempts
            activity.heartbeat(deliveries)
            if some < _DELIVERIES_AT_ONCE:
                return Expired(deliveries=deliveries, attempts=attempts)

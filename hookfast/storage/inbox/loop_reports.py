"""Tells operators of loops: requests that a source rejected because of their hops."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from cachetools import TTLCache
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.clock import Clock, rfc3339, utc_now
from hookfast.events.hops import MAX_HOPS
from hookfast.events.operational import Kind, OperationalEvent
from hookfast.storage.database.doorbell import Doorbell
from hookfast.storage.database.engine import Database
from hookfast.storage.events import operational
from hookfast.storage.inbox import source_stats

INTERVAL: Final = timedelta(hours=1)
"""A source causes at most one operational event in this time, however often its loop turns."""
_CAPACITY = 10_000
_QUIET_SECONDS = 60.0


class LoopReports:
    """Emits `hookfast.source.loop_detected`, at most once per source and hour. One per process."""

    def __init__(self, database: Database, doorbell: Doorbell, *, clock: Clock = utc_now) -> None:
        self._database = database
        self._doorbell = doorbell
        self._clock = clock
        # The database decides; sources that are here need no write to learn its decision.
        self._quiet: TTLCache[str, None] = TTLCache(_CAPACITY, _QUIET_SECONDS)

    async def add(self, source_id: str, *, tenant_id: str, hops: int) -> None:
        """Commit the report of a rejected request with so many hops, unless the source has one.
        Raises the database's errors."""
        if source_id in self._quiet:
            return
        async with self._database.write(quick=True) as connection:
            deliveries = await _report(
                connection, source_id, tenant_id=tenant_id, hops=hops, now=self._clock()
            )
        self._quiet[source_id] = None
        if deliveries:
            self._doorbell.ring()


async def _report(
    connection: AsyncConnection, source_id: str, *, tenant_id: str, hops: int, now: datetime
) -> int:
    """Emit the event if it is due, and return the number of its deliveries."""
    if not await source_stats.claim_loop_report(connection, source_id, now=now, interval=INTERVAL):
        return 0
    event = OperationalEvent(
        kind=Kind.LOOP_DETECTED,
        tenant_id=tenant_id,
        data={
            "source_id": source_id,
            "tenant_id": tenant_id,
            "hops": hops,
            "max_hops": MAX_HOPS,
            "detected_at": rfc3339(now),
        },
        # One more service may receive it through a source, such as another Hookfast of the
        # operator's. If that is in the loop too, the event ends there.
        hops=MAX_HOPS - 1,
    )
    return await operational.emit(connection, [event], now=now)

"""Counts of rejected inbound requests, written every few seconds, so that a flood of wrong
signatures causes no flood of writes.

Callers are not slowed down or blocked. Many sources share the addresses of one provider, so an
address blocked for requests to one source would be blocked for all, and any customer of that
provider could cause it. The cost of rejections is bounded otherwise: each needs a slot among the
requests in progress, of which one source has at most half; an HMAC over a body of limited size; no
write; and however many there are, at most four look-ups of the source a second (its secrets may be
new) and one log line per source and minute.
"""

from __future__ import annotations

import asyncio

import structlog
from sqlalchemy.exc import SQLAlchemyError

from api.limits.token_bucket import TokenBuckets
from hookfast.clock import Clock
from hookfast.errors import HookfastError
from hookfast.outage_log import DATABASE
from hookfast.storage.database.engine import Database
from hookfast.storage.inbox import source_stats
from hookfast.storage.inbox.source_stats import Rejections

FLUSH_SECONDS = 5.0

log = structlog.get_logger()


class InboundRejections:
    """Counts rejected requests by source. One per process."""

    def __init__(self, database: Database, *, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._counts: dict[str, Rejections] = {}
        self._writing = asyncio.Lock()
        self._lines = TokenBuckets(per_second=1 / 60, burst=1)

    def count(self, source_id: str, error: HookfastError) -> None:
        """Count a rejected request to this source, with the reason."""
        now = self._clock()
        reason = f"{error.code}: {error.message}"
        counted = self._counts.setdefault(source_id, Rejections(0, now, reason))
        counted.number += 1
        counted.last_at, counted.last_error = now, reason
        if self._lines.take(source_id).granted:
            log.warning("A source rejects requests.", source_id=source_id, code=error.code)

    async def write(self) -> None:
        """Write the counts so far. If the database is away they are kept for the next time."""
        async with self._writing:
            await self._write()

    async def _write(self) -> None:
        counts, self._counts = self._counts, {}
        if not counts:
            return
        try:
            async with self._database.write() as connection:
                await source_stats.count_rejected(connection, counts.items())
        except SQLAlchemyError as error:
            for source_id, one in counts.items():
                later = self._counts.setdefault(source_id, one)
                if later is not one:
                    later.number += one.number
            DATABASE.failed(
                "Could not write the counts of rejected requests.", error=type(error).__name__
            )

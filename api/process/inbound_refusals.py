"""Counts the inbound requests that were refused, and writes the counts every few seconds: a flood
of wrong signatures is no flood of writes.

Nothing here slows a caller down. Many sources share the addresses of one provider, so an address
that is shut out for what it sent to one of them would be shut out for all, and anyone who sits
beside a provider's customers could bring that about. What a refusal costs is bounded otherwise: a
place among those in hand, of which one source has half at most, an HMAC over a body that is under
the cap, no write, four look-ups of the source a second (its secrets may be new) whatever the number
of refusals; and one line in the log per source and minute.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager

import asyncpg
import structlog
from sqlalchemy.exc import SQLAlchemyError

from api.limits.token_bucket import TokenBuckets
from api.process.flushing import flushing
from hookfast.clock import Clock
from hookfast.errors import HookfastError
from hookfast.storage.database.engine import Database
from hookfast.storage.inbox import source_stats
from hookfast.storage.inbox.source_stats import Refusals

FLUSH_SECONDS = 5.0

log = structlog.get_logger()


class InboundRefusals:
    """One per process."""

    def __init__(self, database: Database, *, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._counts: dict[str, Refusals] = {}
        self._writing = asyncio.Lock()
        self._lines = TokenBuckets(per_second=1 / 60, burst=1)

    def count(self, source_id: str, error: HookfastError) -> None:
        """Note that a request to this source was refused, and why."""
        now = self._clock()
        reason = f"{error.code}: {error.message}"
        counted = self._counts.setdefault(source_id, Refusals(0, now, reason))
        counted.number += 1
        counted.last_at, counted.last_error = now, reason
        if self._lines.take(source_id).granted:
            log.warning("A source refuses requests.", source_id=source_id, code=error.code)

    def writing(self) -> AbstractAsyncContextManager[None]:
        """While the block runs, write the counts every few seconds, and once more at its end."""
        return flushing(self.write, seconds=FLUSH_SECONDS, name="write-refusals")

    async def write(self) -> None:
        """Write what was counted until now, and return when it is written or kept for later."""
        async with self._writing:
            await self._write()

    async def _write(self) -> None:
        counts, self._counts = self._counts, {}
        if not counts:
            return
        try:
            async with self._database.write() as connection:
                await source_stats.refuse(connection, counts.items())
        except (SQLAlchemyError, asyncpg.PostgresError, OSError) as error:
            for source_id, one in counts.items():
                later = self._counts.setdefault(source_id, one)
                if later is not one:
                    later.number += one.number
            log.warning("Could not count what sources refused.", error=type(error).__name__)

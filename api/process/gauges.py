"""How things stand, as gauges: looked up in the database when a scrape asks, or before each push.

The API does it and not the workers, so that the numbers are there when no worker is. Every API
process shows the same ones: take their maximum, not their sum.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import structlog
from sqlalchemy.exc import SQLAlchemyError

from hookfast.clock import Clock
from hookfast.settings.settings import Settings
from hookfast.storage.database.engine import Database
from hookfast.storage.figures.gauges import GaugeValues, standing
from hookfast.telemetry import instruments

_FRESH_SECONDS = 5.0
"""Scrapers that come together share one look."""
_PATIENCE_SECONDS = 5.0
_PUSH_SECONDS = 15.0

_GAUGES = (
    instruments.OUTBOX_BACKLOG,
    instruments.OUTBOX_AGE,
    instruments.PAST_DUE,
    instruments.WAITING,
    instruments.DEAD_LETTERS,
    instruments.CIRCUITS,
    instruments.MAIL_WAITING,
    instruments.MAIL_LATE,
    instruments.WORKERS,
)

log = structlog.get_logger()


class DatabaseGauges:
    """One per process."""

    def __init__(self, database: Database, settings: Settings, *, clock: Clock) -> None:
        self._database = database
        self._settings = settings
        self._clock = clock
        self._looking = asyncio.Lock()
        self._looked_at: float | None = None

    async def refresh(self) -> None:
        """Look, unless somebody has within five seconds. While the database cannot be read the
        gauges have no values, and `hookfast.database.up` is 0."""
        async with self._looking:
            now = time.monotonic()
            if self._looked_at is not None and now - self._looked_at < _FRESH_SECONDS:
                return
            self._looked_at = now
            try:
                async with asyncio.timeout(_PATIENCE_SECONDS), self._database.read() as connection:
                    found = await standing(
                        connection,
                        now=self._clock(),
                        mail_gather=self._settings.mail_gather,
                        mail_digest_every=self._settings.mail_digest_every,
                    )
            except (SQLAlchemyError, asyncpg.PostgresError, OSError) as error:
                log.warning("Could not look how things stand.", error=type(error).__name__)
                for gauge in _GAUGES:
                    gauge.forget()
                instruments.DATABASE_UP.set(0)
            else:
                _show(found)

    @asynccontextmanager
    async def pushing(self) -> AsyncIterator[None]:
        """Look every 15 seconds while the block lasts: where metrics are pushed nobody scrapes."""

        async def look() -> None:
            while True:
                await self.refresh()
                await asyncio.sleep(_PUSH_SECONDS)

        task = asyncio.create_task(look(), name="standing-gauges")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])


def _show(found: GaugeValues) -> None:
    instruments.DATABASE_UP.set(1)
    instruments.OUTBOX_BACKLOG.set(found.outbox)
    instruments.OUTBOX_AGE.set(found.oldest_waits.total_seconds())
    instruments.PAST_DUE.set(found.past_due)
    instruments.DEAD_LETTERS.set(found.dead_letters)
    instruments.MAIL_WAITING.set(found.notices)
    instruments.MAIL_LATE.set(found.mail_late.total_seconds())
    instruments.WORKERS.set(found.workers)
    for status, number in found.waiting.items():
        instruments.WAITING.set(number, status=status.value)
    for state, number in found.circuits.items():
        instruments.CIRCUITS.set(number, state=state.value)

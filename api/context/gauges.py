"""Gauges that are read from the database: for each scrape, or before each push.

The API reads them instead of the workers, so that they exist when no worker runs. Every API process
reports the same values: aggregate them by maximum, not by sum.
"""

from __future__ import annotations

import asyncio
import time

from sqlalchemy.exc import SQLAlchemyError

from hookfast.clock import Clock
from hookfast.deliveries.figures import WAITING
from hookfast.outage_log import DATABASE
from hookfast.settings.settings import Settings
from hookfast.storage.database.engine import Database
from hookfast.storage.figures.gauges import GaugeValues, read_gauges
from hookfast.telemetry import instruments

_FRESH_SECONDS = 5.0
"""Scrapes within this time share one read."""
_TIMEOUT_SECONDS = 5.0
REFRESH_SECONDS = 15.0
"""Metrics that are pushed are refreshed this often."""

_GAUGES = (
    instruments.OUTBOX_BACKLOG,
    instruments.OUTBOX_AGE,
    instruments.PAST_DUE,
    instruments.WAITING,
    instruments.QUEUED,
    instruments.DEAD_LETTERS,
    instruments.CIRCUITS,
    instruments.MAIL_WAITING,
    instruments.MAIL_LATE,
    instruments.WORKERS,
)


class DatabaseGauges:
    """Sets the gauges from the database. One per process."""

    def __init__(self, database: Database, settings: Settings, *, clock: Clock) -> None:
        self._database = database
        self._settings = settings
        self._clock = clock
        self._reading = asyncio.Lock()
        self._read_at: float | None = None

    async def refresh(self) -> None:
        """Read the gauges, unless they were read within five seconds. While the database cannot be
        read they have no values, and `hookfast.database.up` is 0."""
        async with self._reading:
            now = time.monotonic()
            if self._read_at is not None and now - self._read_at < _FRESH_SECONDS:
                return
            self._read_at = now
            try:
                async with asyncio.timeout(_TIMEOUT_SECONDS), self._database.read() as connection:
                    found = await read_gauges(
                        connection,
                        now=self._clock(),
                        mail_gather=self._settings.mail_gather,
                        mail_digest_every=self._settings.mail_digest_every,
                    )
            except (SQLAlchemyError, TimeoutError) as error:
                DATABASE.failed(
                    "Could not read the gauges from the database.", error=type(error).__name__
                )
                for gauge in _GAUGES:
                    gauge.forget()
                instruments.DATABASE_UP.set(0)
            else:
                _set_gauges(found)


def _set_gauges(found: GaugeValues) -> None:
    instruments.DATABASE_UP.set(1)
    instruments.OUTBOX_BACKLOG.set(found.outbox)
    instruments.OUTBOX_AGE.set(found.oldest_waits.total_seconds())
    instruments.PAST_DUE.set(found.past_due)
    instruments.QUEUED.set(found.waiting.queued)
    instruments.DEAD_LETTERS.set(found.waiting.dead)
    instruments.MAIL_WAITING.set(found.notices)
    instruments.MAIL_LATE.set(found.mail_late.total_seconds())
    instruments.WORKERS.set(found.workers)
    for status in WAITING:
        instruments.WAITING.set(found.waiting.by_status[status], status=status.value)
    for state, number in found.circuits.items():
        instruments.CIRCUITS.set(number, state=state.value)

"""The backlog limit: no new events while too many deliveries wait for a worker.

Waiting deliveries are only rows, so the limit is high. Beyond it, a flood that the workers cannot
keep up with would fill the disk, and its events would arrive a day late. All requests share one
count, taken in the background, and less often when counting is slow: a request never waits for it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import structlog
from fastapi import Request
from sqlalchemy.exc import SQLAlchemyError

from hookfast.errors import Unavailable
from hookfast.outage_log import DATABASE
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import outbox

_FRESH_SECONDS: Final = 2.0
_PAUSE_PER_COUNT: Final = 20
"""The pause after a count, as a multiple of its duration: counting uses at most a twentieth of a
connection. A million rows are counted in a tenth of a second."""
_RETRY_SECONDS: Final = 10

log = structlog.get_logger()


class Backlog:
    """The number of waiting deliveries compared with its limit, one per process. The count is up to
    a few seconds old, so the limit can be exceeded by that many seconds' events."""

    def __init__(self, database: Database, *, limit: int) -> None:
        """At most `limit` deliveries may wait; 0 means no limit."""
        self._database = database
        self._limit = limit
        self._full = False
        self._count_at = 0.0
        self._counting: asyncio.Task[None] | None = None

    def check(self) -> None:
        """Raise Unavailable (`overloaded`) while too many deliveries wait."""
        if self._limit and self._counting is None and time.monotonic() >= self._count_at:
            self._counting = asyncio.create_task(self._count(), name="backlog")
        if self._full:
            raise Unavailable(
                "Too many deliveries are waiting. Nothing was stored; send it again later.",
                code="overloaded",
                retry_after=_RETRY_SECONDS,
            )

    @asynccontextmanager
    async def counting(self) -> AsyncIterator[None]:
        """Stop a count in progress when the block ends."""
        try:
            yield
        finally:
            if self._counting is not None:
                self._counting.cancel()
                await asyncio.wait([self._counting])

    async def _count(self) -> None:
        began = time.monotonic()
        try:
            async with self._database.read() as connection:
                full = await outbox.backlog_reaches(connection, self._limit)
        except SQLAlchemyError as error:
            DATABASE.failed("Could not count the waiting deliveries.", error=type(error).__name__)
        else:
            if full != self._full:
                self._full = full
                log.warning(
                    "Too many deliveries are waiting: new events are rejected."
                    if full
                    else "Fewer deliveries are waiting: new events are accepted again.",
                    limit=self._limit,
                )
        finally:
            took = time.monotonic() - began
            self._count_at = time.monotonic() + max(_FRESH_SECONDS, _PAUSE_PER_COUNT * took)
            self._counting = None


async def check_backlog(request: Request) -> None:
    """Route dependency that raises Unavailable (`overloaded`) while too many deliveries wait."""
    limit: Backlog = request.app.state.context.backlog
    limit.check()

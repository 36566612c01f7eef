"""Whether new events are taken: not while more deliveries wait for a worker than may.

What waits is only rows, so the limit is far away; past it a flood that nobody carries off would
fill the disk, and what it holds would come a day late. The look is shared by all requests, taken
beside them, and rarer where there is much to count: a request never waits for it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import asyncpg
import structlog
from fastapi import Request
from sqlalchemy.exc import SQLAlchemyError

from hookfast.errors import Unavailable
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import backlog

_FRESH_SECONDS: Final = 2.0
_PAUSES_PER_LOOK: Final = 20
"""A million rows are counted in a tenth of a second: looks take a twentieth of a connection."""
_RETRY_SECONDS: Final = 10

log = structlog.get_logger()


class Backlog:
    """One per process: what it knows is up to a few seconds old, and so many more may come."""

    def __init__(self, database: Database, *, limit: int) -> None:
        """`limit` deliveries may wait; 0 is no limit."""
        self._database = database
        self._limit = limit
        self._full = False
        self._look_at = 0.0
        self._looking: asyncio.Task[None] | None = None

    def check(self) -> None:
        """Raises Unavailable (`overloaded`) while too much waits."""
        if self._limit and self._looking is None and time.monotonic() >= self._look_at:
            self._looking = asyncio.create_task(self._look(), name="backlog")
        if self._full:
            raise Unavailable(
                "Too many deliveries wait to be made. Nothing was stored; send it again later.",
                code="overloaded",
                retry_after=_RETRY_SECONDS,
            )

    @asynccontextmanager
    async def looking(self) -> AsyncIterator[None]:
        """Nothing is looked up any more when the block has ended."""
        try:
            yield
        finally:
            if self._looking is not None:
                self._looking.cancel()
                await asyncio.wait([self._looking])

    async def _look(self) -> None:
        began = time.monotonic()
        try:
            async with self._database.read() as connection:
                full = await backlog.reaches(connection, self._limit)
        except (SQLAlchemyError, asyncpg.PostgresError, OSError) as error:
            log.warning("Could not count what waits.", error=type(error).__name__)
        else:
            if full != self._full:
                self._full = full
                log.warning(
                    "Too much waits: new events are refused."
                    if full
                    else "Less waits: new events are taken again.",
                    limit=self._limit,
                )
        finally:
            took = time.monotonic() - began
            self._look_at = time.monotonic() + max(_FRESH_SECONDS, _PAUSES_PER_LOOK * took)
            self._looking = None


async def admitted(request: Request) -> None:
    """A route's dependency. Raises Unavailable (`overloaded`) while too much waits."""
    waiting: Backlog = request.app.state.context.backlog
    waiting.check()

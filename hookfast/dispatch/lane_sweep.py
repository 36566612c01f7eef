"""Background work of every worker for ordered deliveries.

A lane's next delivery moves up in the transaction in which its head leaves. There is work here only
where that was impossible: the next delivery was locked at that moment, by a person who acts on it;
the head was deleted, by retention; or dead letters no longer block since the setting was changed.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta

import structlog
from sqlalchemy.exc import SQLAlchemyError

from hookfast.clock import utc_now
from hookfast.deliveries.facts import Action
from hookfast.deliveries.lane import DeadLetterPolicy
from hookfast.outage_log import DATABASE
from hookfast.storage.database.doorbell import Doorbell
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import lives
from hookfast.storage.events import lanes

_RETRY_SECONDS = 0.5
_INSPECT_SECONDS = 60.0
_LANES = 500  # at once
_PAGES = 20  # of an inspection; it continues there a minute later
_UNUSED_AFTER = timedelta(days=2)
"""Positions are at least the time in microseconds, so a lane may be deleted and used again; this is
longer than clocks of APIs can differ."""

log = structlog.get_logger()


async def move_up_forever(database: Database, doorbell: Doorbell) -> None:
    """Let deliveries move up whose row was locked when their turn came."""
    while True:
        await asyncio.sleep(_RETRY_SECONDS)
        try:
            if await move_up_once(database):
                doorbell.ring()
        except SQLAlchemyError as error:
            DATABASE.failed("Lanes cannot be read.", error=type(error).__name__)


async def move_up_once(database: Database) -> int:
    """Try again for lanes without a head. Return how many deliveries moved up."""
    async with database.read(quick=True) as connection:
        waiting = await lanes.needing_head(connection, limit=_LANES)
    if not waiting:
        return 0
    async with database.write() as connection:
        return len(await lives.advance(connection, waiting, now=utc_now()))


async def inspect_forever(
    database: Database, doorbell: Doorbell, *, dead_letters: DeadLetterPolicy
) -> None:
    """Inspect all lanes, in parts, every minute."""
    after = ""
    while True:
        await asyncio.sleep(_INSPECT_SECONDS)
        try:
            for _ in range(_PAGES):
                moved, last = await inspect_page(database, after, dead_letters=dead_letters)
                if moved:
                    log.warning("Lanes without a leading delivery continue.", count=moved)
                    doorbell.ring()
                after = last or ""
                if last is None:
                    break
        except SQLAlchemyError as error:
            DATABASE.failed("Lanes cannot be inspected.", error=type(error).__name__)


async def inspect_page(
    database: Database, after: str, *, dead_letters: DeadLetterPolicy, limit: int = _LANES
) -> tuple[int, str | None]:
    """Inspect the lanes that follow `after`: let stuck ones continue, and delete unused ones.
    Returns how many deliveries moved up, and the last lane (None if no more follow)."""
    now = utc_now()
    unused_since = now - _UNUSED_AFTER
    async with database.read() as connection:
        seen = await lanes.inspect(connection, unused_since=unused_since, after=after, limit=limit)
    passed = seen.dead if dead_letters is DeadLetterPolicy.CONTINUE else []
    moved = 0
    # Each in a transaction of its own, because lanes are locked in the order of their ids.
    if passed:
        async with database.write() as connection:
            facts = [(one, Action.LEAVE_LANE) for one in passed]
            leaving = await lives.apply(connection, facts, now=now)
        moved += sum(one.left_lane for one in leaving.values())
    if seen.stuck:
        async with database.write() as connection:
            stuck, gone = seen.stuck.values(), seen.stuck.keys()
            moved += len(await lives.advance(connection, stuck, left=gone, now=now))
    if seen.unused:
        async with database.write() as connection:
            await lanes.delete_idle(connection, seen.unused, unused_since=unused_since)
    return moved, seen.last

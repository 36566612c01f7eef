"""Stored deliveries in any status, reached by applying facts, as workers and people do."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from sqlalchemy import update

from hookfast.deliveries.facts import Action, AttemptPlan, Fact, Held, Limited, Trigger
from hookfast.deliveries.life import Life, apply_fact
from hookfast.deliveries.outcome import Reason
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import life_rows, lives
from hookfast.storage.tables import Delivery
from tests.integration.storage.retention.ended import NO_RETRIES, ended
from tests.support.seed import seed_delivery

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
FIRST: Final = AttemptPlan(number=1, trigger=Trigger.FIRST, round=0, in_plan=True)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


# The facts by which a delivery that was due at noon is in each status at `at(10)`. If the first
# attempt failed, the plan's next one is due at `at(61.005)`.
_FAILED = (1.0, ended(FIRST, 503, at(1)))
BEFORE: Final[dict[str, tuple[tuple[float, Fact], ...]]] = {
    "pending": (),
    "retrying": (_FAILED,),
    "limited": ((1.0, Limited(FIRST, at(90))),),
    "held": ((1.0, Held(FIRST, Reason.CIRCUIT_OPEN, at(3600))),),
    "paused": (_FAILED, (2.0, Action.PAUSE)),
    "delivered": ((1.0, ended(FIRST, 200, at(1))),),
    "dead": ((1.0, ended(FIRST, 503, at(1), plan=NO_RETRIES)),),
    "gone": ((1.0, ended(FIRST, 410, at(1))),),
    "cancelled": ((2.0, Action.CANCEL),),
}
OPEN: Final = ("pending", "retrying", "limited", "held", "paused")
ENDED: Final = ("delivered", "dead", "gone", "cancelled")


def life_after(facts: Iterable[tuple[float, Fact]]) -> Life:
    """Return the life of a delivery that was due at noon after these (seconds, fact) pairs."""
    life = Life(due_at=NOON)
    for seconds, fact in facts:
        life = apply_fact(life, fact, now=at(seconds))
    return life


async def seed_life(database: Database, endpoint: str, before: str = "pending") -> str:
    """Store a delivery in the status `before`, with a started workflow. Returns its id."""
    delivery = await seed_delivery(
        database, endpoint, created_at=NOON, updated_at=NOON, due_at=NOON, next_attempt_at=NOON
    )
    table = Delivery.__table__
    async with database.write() as connection:
        for seconds, fact in BEFORE[before]:
            await lives.apply(connection, [(delivery, fact)], now=at(seconds))
        await connection.execute(
            update(table).where(table.c.id == delivery).values(started_at=NOON)
        )
    return delivery


async def stored_life(database: Database, delivery: str) -> Life:
    async with database.read() as connection:
        life = (await life_rows.lock(connection, [delivery]))[delivery].life
    return life

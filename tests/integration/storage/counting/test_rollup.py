"""Old figures are added up by hour and by day, without changing any sum."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Table, func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.figures import minute_of, time_of_minute
from hookfast.storage.counting import folding, reading, rollup
from hookfast.storage.counting.reading import Scope
from hookfast.storage.counting.rollup import Ages, Moved
from hookfast.storage.database.engine import Database
from hookfast.storage.tables import Figure, FigureEntry, Gauge

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 11, 20, 3, 25, tzinfo=UTC)
DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
KINDS = ("delivery:delivered", "delivery:pending", "ended:delivered:", "attempt:success:first")
TYPES = ("order.invoice.paid", "order.refund.paid")
ENDPOINTS = {"ep_1": "tnt_1", "ep_2": "tnt_1", "ep_3": "tnt_2"}
TIMES = (
    # the oldest minute of a time, and how much of it has figures
    (NOW - timedelta(hours=5), timedelta(hours=5)),
    (NOW - 2 * DAY - timedelta(hours=3), timedelta(hours=6)),  # across the age of minutes
    (NOW - 20 * DAY, timedelta(hours=4)),
    (NOW - 40 * DAY - timedelta(hours=30), timedelta(hours=60)),  # across the age of hours
    (NOW - 300 * DAY, DAY),
)
AGES = rollup.ages(NOW, kept_since=None)

_FIGURES: Table = Figure.__table__
_F = _FIGURES.c
_ENTRIES: Table = FigureEntry.__table__
_GAUGES: Table = Gauge.__table__

Sums = Counter[tuple[str, int, str, str, int]]
"""Numbers by scope, day, event type, kind and bucket."""


class Dies(Exception):
    """Ends a transaction where a crash would."""


async def nothing(connection: AsyncConnection, moved: Moved) -> None:
    """Record nothing."""


async def add_figures(database: Database, *, number: int, seed: int = 1) -> None:
    """Count at random minutes of each of `TIMES`, and add the entries up."""
    chance = random.Random(seed)
    rows = []
    for start, length in TIMES:
        for _ in range(number):
            endpoint = chance.choice(list(ENDPOINTS))
            minute = minute_of(start) + chance.randrange(length // timedelta(minutes=1))
            rows.append(_entry(endpoint, minute, chance))
    async with database.write() as connection:
        await connection.execute(insert(_ENTRIES), rows)
    assert await folding.fold(database) == len(rows)


def _entry(endpoint: str, minute: int, chance: random.Random) -> dict[str, Any]:
    kind = chance.choice(KINDS)
    return {
        "gauge": False,
        "at": minute,
        "tenant_id": ENDPOINTS[endpoint],
        "endpoint_id": endpoint,
        "event_type": chance.choice(TYPES),
        "kind": kind,
        "bucket": -1 if kind.startswith("delivery") else chance.randrange(4),
        "number": chance.choice((1, 1, 2, -1)) if kind == "delivery:pending" else 1,
    }


async def sums(database: Database) -> Sums:
    """Return the sums of what no age may change: of a day, without the minutes that are deleted."""
    day = (_F.at - _F.at % 1440).label("day")
    of_hours = _F.scope.startswith(folding.BY_HOUR) | _F.scope.endswith(folding.BY_TYPE)
    added = (
        select(_F.scope, day, _F.event_type, _F.kind, _F.bucket, func.sum(_F.number))
        .where((_F.at >= AGES.hours) | of_hours)
        .group_by(_F.scope, "day", _F.event_type, _F.kind, _F.bucket)
        .having(func.sum(_F.number) != 0)
    )
    async with database.read() as connection:
        return Counter({tuple(key): number for *key, number in await connection.execute(added)})


async def minutes_of(database: Database, scope: str) -> list[int]:
    async with database.read() as connection:
        found = await connection.execute(select(_F.at).where(_F.scope == scope).distinct())
        return sorted(found.scalars())


async def number_of_rows(database: Database) -> int:
    async with database.read() as connection:
        return await connection.scalar(select(func.count()).select_from(_FIGURES)) or 0


async def test_each_sum_stays_while_minutes_are_deleted_and_hours_become_days(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollup, "_ROWS_AT_ONCE", 40)
    monkeypatch.setattr(rollup, "_SCOPES_AT_ONCE", 3)
    await add_figures(database, number=150)
    before, rows = await sums(database), await number_of_rows(database)
    moved: list[Moved] = []

    async def record(connection: AsyncConnection, piece: Moved) -> None:
        moved.append(piece)

    await rollup.roll_up(database, AGES, record=record)

    assert await sums(database) == before
    after = await number_of_rows(database)
    assert after < rows
    assert sum(one.rolled_up + one.deleted for one in moved) >= rows - after
    # pieces are bounded: those of one minute more than asked for
    assert len(moved) > 10
    assert max(one.rolled_up + one.deleted for one in moved) <= 40 + len(KINDS) * 5
    for scope in ("hours/all", "hours/tnt_1", "hours/ep_2", "all/types", "ep_3/types"):
        for at in await minutes_of(database, scope):
            assert at % 60 == 0
            assert at % 1440 == 0 or at >= AGES.days
    for scope in ("all", "tnt_1", "ep_2"):
        assert min(await minutes_of(database, scope)) >= AGES.hours
    assert any(at % 60 for at in await minutes_of(database, "all"))
    assert any(at % 1440 for at in await minutes_of(database, "hours/all") if at < AGES.hours)

    moved.clear()
    await rollup.roll_up(database, AGES, record=record)
    assert moved == []  # and nothing was written


async def test_readers_see_the_same_before_and_after(database: Database) -> None:
    await add_figures(database, number=100)
    edges = [time_of_minute(AGES.days) + number * DAY for number in range(-60, 42)]
    last = [time_of_minute(AGES.hours) + number * HOUR for number in range(-5, 5)]

    async def read() -> list[Any]:
        async with database.read() as connection:
            return [
                await reading.steps(connection, scope, times)
                for scope in (Scope(), Scope("tnt_1"), Scope("tnt_2", "ep_3"))
                for times in (edges, last)
            ] + [await reading.steps_by_type(connection, Scope(), edges)]

    before = await read()
    assert sum(step.attempted for step in before[0]) > 20
    await rollup.roll_up(database, AGES, record=nothing)
    assert await read() == before


@pytest.mark.parametrize("step", ["ADD", "DELETE_MOVED", "record", "committed"])
async def test_crash_at_each_point_neither_loses_nor_doubles_a_number(
    database: Database, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    monkeypatch.setattr(rollup, "_ROWS_AT_ONCE", 60)
    await add_figures(database, number=80)
    before = await sums(database)
    move, executed, recorded, died = rollup._move, AsyncConnection.execute, [], []

    def die(piece: object) -> None:
        """Die once at each piece."""
        if piece not in died:
            died.append(piece)
            raise Dies

    async def moving(connection: AsyncConnection, old: Ages, piece: Any) -> Moved:
        async def execute(self: AsyncConnection, statement: Any, *args: Any, **more: Any) -> Any:
            done = await executed(self, statement, *args, **more)
            watched = rollup.ADD[connection.dialect.name] if step == "ADD" else rollup.DELETE_MOVED
            if step in ("ADD", "DELETE_MOVED") and statement is watched:
                die((tuple(piece.scopes), piece.before))
            return done

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(AsyncConnection, "execute", execute)
            return await move(connection, old, piece)

    async def record(connection: AsyncConnection, piece: Moved) -> None:
        if step == "record":
            die(len(recorded))
        recorded.append(piece)

    def heartbeat(scope: str) -> None:
        if step == "committed":
            die(scope)

    monkeypatch.setattr(rollup, "_move", moving)
    for _ in range(200):
        try:
            await rollup.roll_up(database, AGES, record=record, heartbeat=heartbeat)
            break
        except Dies:
            assert await sums(database) == before
    assert len(died) > 2
    assert await sums(database) == before
    assert min(await minutes_of(database, "all")) >= AGES.hours
    assert not [
        at for at in await minutes_of(database, "hours/all") if at % 1440 and at < AGES.days
    ]


async def test_late_numbers_of_an_old_hour_are_moved_by_the_next_run(
    database: Database,
) -> None:
    await add_figures(database, number=40)
    await rollup.roll_up(database, AGES, record=nothing)
    rows = await number_of_rows(database)
    await add_figures(database, number=40, seed=2)
    before = await sums(database)
    assert await number_of_rows(database) > rows
    await rollup.roll_up(database, AGES, record=nothing)
    assert await sums(database) == before
    assert min(await minutes_of(database, "ep_1")) >= AGES.hours
    assert not [
        at for at in await minutes_of(database, "hours/ep_1") if at % 1440 and at < AGES.days
    ]


async def test_adding_up_entries_goes_on_meanwhile(database: Database) -> None:
    """An entry that is added while a piece is open is neither lost nor doubled."""
    await add_figures(database, number=40)
    chance = random.Random(3)
    minute = minute_of(NOW - 20 * DAY)
    added = 0

    async def record(connection: AsyncConnection, piece: Moved) -> None:
        nonlocal added
        if database.kind == "postgresql":  # on SQLite, this transaction is the only writer
            async with database.write() as other:
                await other.execute(insert(_ENTRIES), _entry("ep_1", minute, chance))
            added += 1
            assert await folding.fold(database) == 0  # its turn comes after this piece

    before = await sums(database)
    await rollup.roll_up(database, AGES, record=record)
    assert await folding.fold(database) == added
    await rollup.roll_up(database, AGES, record=nothing)
    after = await sums(database)
    after.subtract(before)
    assert (
        sum(abs(number) for (scope, *_), number in after.items() if scope == "hours/all") >= added
    )


async def test_figures_past_their_age_and_zeros_are_deleted(database: Database) -> None:
    kept_since = datetime(2026, 9, 1, tzinfo=UTC)
    ages = rollup.ages(NOW, kept_since=kept_since)
    edge, old, new = ages.kept, minute_of(NOW - 3 * DAY), minute_of(NOW - HOUR)
    rows = [
        # scope, minute, number, and where it is afterwards
        ("hours/all", edge - 60, 5, None),
        ("hours/all", edge, 6, edge),
        ("hours/ep_1", edge - 1440, 7, None),
        ("hours/ep_1", edge + 60, 8, edge),
        ("hours/ep_2", old - old % 60, 0, None),
        ("hours/ep_2", ages.hours - 2 * 1440, 0, ages.hours - 2 * 1440),  # with its day
        ("hours/ep_3", edge + 60, 3, None),  # with the next, 0
        ("hours/ep_3", edge + 120, -3, None),
        ("ep_3", old, 9, None),
        ("ep_4", new, 0, new),  # may still change
    ]
    async with database.write() as connection:
        await connection.execute(
            insert(_FIGURES),
            [
                dict(zip(_F.keys(), (scope, at, "", KINDS[1], -1, number), strict=True))
                for scope, at, number, _ in rows
            ],
        )
    moved: Counter[str] = Counter()

    async def record(connection: AsyncConnection, piece: Moved) -> None:
        moved.update(piece._asdict())

    await rollup.roll_up(database, ages, record=record)
    async with database.read() as connection:
        left = await connection.execute(select(_F.scope, _F.at, _F.number))
        assert sorted(tuple(row) for row in left) == sorted(
            (scope, at, number) for scope, _, number, at in rows if at is not None
        )
    assert moved == {"rolled_up": 4, "deleted": 2}


async def test_gauges_of_zero_are_deleted(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollup, "NEXT_GAUGES", rollup.NEXT_GAUGES.limit(2))
    gauges = [
        (f"ep_{number}", kind, number % 3) for number in range(9) for kind in ("held", "dead:")
    ]
    async with database.write() as connection:
        await connection.execute(
            insert(_GAUGES),
            [
                {
                    "endpoint_id": endpoint,
                    "kind": kind,
                    "event_type": "",
                    "at": 0,
                    "tenant_id": "tnt_1",
                    "number": number,
                }
                for endpoint, kind, number in gauges
            ],
        )
    await rollup.delete_empty_gauges(database)
    async with database.read() as connection:
        left = await connection.execute(select(_GAUGES.c.endpoint_id, _GAUGES.c.kind))
        assert sorted(tuple(row) for row in left) == sorted(
            (endpoint, kind) for endpoint, kind, number in gauges if number
        )

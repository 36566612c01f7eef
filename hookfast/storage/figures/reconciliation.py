"""Compares gauges and the newest figures with the rows that they count, in bounded pieces, and
corrects gauges that differ.

Each piece is read in one state of the database, so a difference is a fault, and never a change in
between. It is corrected by adding the difference, which changes of the same gauge do not disturb.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    CompoundSelect,
    Select,
    String,
    Table,
    bindparam,
    case,
    func,
    literal_column,
    select,
    text,
    union,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.figures import DEAD, WAITING, Key, Owner, State, Tally
from hookfast.deliveries.lane import Place
from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.ids import Prefix, first_id_at
from hookfast.storage.counting import entries, folding, reading
from hookfast.storage.counting.reading import Scope
from hookfast.storage.database.engine import Database
from hookfast.storage.database.planner_hints import undelivered
from hookfast.storage.tables import Attempt, Delivery, Endpoint, FigureEntry, Gauge

ENDPOINTS_AT_ONCE: Final = 200
HOURS: Final = 24
"""So many whole hours are compared. Retention keeps rows for longer."""

_D = Delivery.__table__.c
_A = Attempt.__table__.c
_E = Endpoint.__table__.c
_GAUGES: Table = Gauge.__table__
_ENTRIES: Table = FigureEntry.__table__
_HOUR: Final = timedelta(hours=1)

Drift = Mapping[Key, int]
"""By how much each gauge is too low; only gauges that differ."""


class Hour(NamedTuple):
    """An hour with the attempts that began and the deliveries that were created in it: how many
    were counted, and how many there are."""

    start: datetime
    attempts_counted: int
    attempts: int
    deliveries_counted: int
    deliveries: int

    @property
    def differs(self) -> bool:
        """Whether the figures are not those of the rows."""
        return (self.attempts_counted, self.deliveries_counted) != (self.attempts, self.deliveries)


@dataclass(frozen=True, slots=True)
class Page:
    """The endpoints of one piece, and how their gauges differ from their rows."""

    endpoint_ids: Sequence[str]
    drift: Drift


async def pages(database: Database) -> AsyncIterator[Page]:
    """Compare the gauges of all endpoints with their rows, some endpoints at a time, by id."""
    after = ""
    while True:
        async with database.read() as connection:
            await folding.freeze(connection)
            found = await connection.execute(NEXT_ENDPOINTS, {"after": after})
            ids = sorted(found.scalars())[:ENDPOINTS_AT_ONCE]
            drift = await compare(connection, ids)
        if not ids:
            return
        yield Page(ids, drift)
        after = ids[-1]


async def correct(
    database: Database,
    endpoint_ids: Sequence[str],
    *,
    record: Callable[[AsyncConnection, Drift], Awaitable[None]],
) -> Drift:
    """Compare the gauges of these endpoints again, add what they differ by, and return it. `record`
    is called in the same transaction."""
    async with database.write() as connection:
        await folding.freeze(connection)
        if connection.dialect.name == "postgresql":
            # One correction at a time: two would add the same difference. No snapshot is taken
            # before the lock is there.
            await connection.execute(text("LOCK TABLE gauges IN SHARE ROW EXCLUSIVE MODE"))
        drift = await compare(connection, endpoint_ids)
        await entries.write(connection, drift.items())
        await record(connection, drift)
    return drift


async def compare(connection: AsyncConnection, endpoint_ids: Sequence[str]) -> Drift:
    """Return how the gauges of these endpoints differ from their rows. The transaction sees one
    state of the database (`folding.freeze`)."""
    if not endpoint_ids:
        return {}
    ids = {"ids": endpoint_ids}
    tally = Tally()
    for row in await connection.execute(WAITING_ROWS, ids):
        owner = Owner("", row.endpoint_id, "")
        status = DeliveryStatus(row.status)
        tally.gauges(owner, State(status, queued=True), row.queued)
        tally.gauges(owner, State(status), row.number - row.queued)
    for row in await connection.execute(DEAD_ROWS[connection.dialect.name], ids):
        state = State(DeliveryStatus(row.status), row.reason, _moment(row.hour))
        tally.gauges(Owner("", row.endpoint_id, row.event_type), state, row.number)
    found = Counter(dict(tally.numbers()))
    tenants: dict[str, str] = {}
    for statement in (COUNTED, COUNTED_ENTRIES):
        for row in await connection.execute(statement, ids):
            key = Key(True, row.at, "", row.endpoint_id, row.event_type, row.kind, -1)
            found[key] -= row.number
            tenants[row.endpoint_id] = row.tenant_id
    differing = {key: number for key, number in found.items() if number}
    if not differing:
        return {}
    tenants |= {row.id: row.tenant_id for row in await connection.execute(TENANTS, ids)}
    return {
        key._replace(tenant_id=tenants[key.endpoint_id]): number
        for key, number in differing.items()
    }


async def hours(database: Database, *, now: datetime) -> AsyncIterator[Hour]:
    """Compare the figures of the last whole hours with the rows, the newest first."""
    end = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    for number in range(HOURS):
        start = end - (number + 1) * _HOUR
        async with database.read() as connection:
            await folding.freeze(connection)
            [counted] = await reading.steps(connection, Scope(), [start, start + _HOUR])
            yield Hour(
                start,
                counted.attempted,
                await connection.scalar(rows_of_hour("att", _A.id, start)) or 0,
                counted.accepted,
                await connection.scalar(rows_of_hour("dlv", _D.id, start)) or 0,
            )


def in_words(drift: Drift) -> list[str]:
    """Return each gauge with its difference, such as `held +3`."""
    numbers: Counter[str] = Counter()
    for key, number in drift.items():
        numbers[key.kind] += number
    return [f"{kind} {number:+,}" for kind, number in sorted(numbers.items())]


def hour_in_words(hour: Hour) -> list[str]:
    """Return what was counted in an hour, and what there is."""
    return [
        f"attempts {hour.attempts_counted:,}, rows {hour.attempts:,}",
        f"deliveries {hour.deliveries_counted:,}, rows {hour.deliveries:,}",
    ]


def rows_of_hour(prefix: Prefix, column: Any, start: datetime) -> Select[int]:
    """Return the statement that counts the rows of an hour, by a range of ids."""
    first, end = first_id_at(prefix, start), first_id_at(prefix, start + _HOUR)
    return select(func.count()).where(column >= first, column < end)


def _of_endpoints(column: Any) -> Any:
    return column.in_(bindparam("ids", type_=String, expanding=True))


def _next_endpoints() -> CompoundSelect[Any]:
    """Select the next endpoints: those that exist, and others that have gauges."""
    parts = [
        select(
            select(column)
            .distinct()
            .where(column > bindparam("after"))
            .order_by(column)
            .limit(ENDPOINTS_AT_ONCE)
            .subquery()
            .c[0]
        )
        for column in (_E.id, _GAUGES.c.endpoint_id)
    ]
    return union(*parts)


NEXT_ENDPOINTS: Final = _next_endpoints()
"""Selects ids of endpoints, more than the next piece has."""
TENANTS: Final = select(_E.id, _E.tenant_id).where(_of_endpoints(_E.id))
COUNTED: Final = select(_GAUGES).where(_of_endpoints(_GAUGES.c.endpoint_id))
COUNTED_ENTRIES: Final = select(_ENTRIES).where(
    _ENTRIES.c.gauge, _of_endpoints(_ENTRIES.c.endpoint_id)
)
WAITING_ROWS: Final = (
    select(
        _D.endpoint_id,
        _D.status,
        func.count().label("number"),
        func.sum(case((_D.place == Place.QUEUED.value, 1), else_=0)).label("queued"),
    )
    .where(_of_endpoints(_D.endpoint_id), *undelivered(_D.status, *WAITING))
    .group_by(_D.endpoint_id, _D.status)
)
"""Selects how many deliveries of these endpoints wait, and how many of them are queued."""
_HOUR_OF_END: Final[Mapping[str, Any]] = {
    "postgresql": func.date_trunc(
        literal_column("'hour'"), _D.finished_at, literal_column("'UTC'")
    ),
    "sqlite": func.substr(_D.finished_at, literal_column("1"), literal_column("13")),
}


def _dead_rows(hour: Any) -> Select[Any]:
    key = (_D.endpoint_id, _D.status, _D.reason, _D.event_type)
    return (
        select(*key, hour.label("hour"), func.count().label("number"))
        .where(_of_endpoints(_D.endpoint_id), *undelivered(_D.status, *DEAD))
        .group_by(*key, hour)
    )


DEAD_ROWS: Final = {name: _dead_rows(hour) for name, hour in _HOUR_OF_END.items()}
"""Selects how many dead letters these endpoints have, by the hour in which they ended."""


def _moment(hour: datetime | str | None) -> datetime | None:
    return datetime.fromisoformat(f"{hour}:00:00+00:00") if isinstance(hour, str) else hour

"""Statements on `lanes`. A lane's row is locked while a delivery joins it, or while its head leaves
and the next one moves up. So the order of a lane is the order in which its events were committed,
also with several APIs whose clocks differ, and a lane never has two heads.

Lanes are locked in the order of their ids, after deliveries and before endpoints, circuits and
limits. While a lane is locked, nobody waits for a delivery.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sqlalchemy import (
    Table,
    and_,
    bindparam,
    delete,
    exists,
    func,
    literal,
    select,
    text,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.lane import Place
from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.storage.database.upsert import insert_into
from hookfast.storage.tables import Delivery
from hookfast.storage.tables import Lane as LaneRow

_LANES: Table = LaneRow.__table__
_L = _LANES.c
_D = Delivery.__table__.c
_MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_QUEUED = text("place = 'queued'")  # literally the predicate of the index


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane whose row is locked until the transaction ends."""

    id: str
    head: str | None
    needs_head: bool
    last_position: int

    @property
    def idle(self) -> bool:
        """Whether a delivery that joins is its head at once."""
        return self.head is None and not self.needs_head


@dataclass(frozen=True, slots=True)
class Entrant:
    """A new delivery that joins a lane. `ended`: it is a dead letter on arrival, which has a
    position, for the case that it is resent, but is never in anybody's way."""

    lane: str
    delivery_id: str
    ended: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """A new delivery's place in its lane."""

    lane: str
    delivery_id: str
    position: int
    place: Place


async def enter(
    connection: AsyncConnection, entrants: Sequence[Entrant], *, now: datetime
) -> dict[str, Entry]:
    """Let new deliveries join their lanes, in this order, and return their places by delivery. The
    first one of an idle lane is its head. The caller inserts them in the same transaction."""
    of_lane: defaultdict[str, list[Entrant]] = defaultdict(list)
    for entrant in entrants:
        of_lane[entrant.lane].append(entrant)
    locked = await lock(connection, of_lane, now=now)
    entries: dict[str, Entry] = {}
    after = []
    for lane_id, joining in of_lane.items():
        lane = locked[lane_id]
        position = max(lane.last_position, (now - _EPOCH) // _MICROSECOND)
        for one in joining:
            position += 1
            place = Place.LEFT if one.ended else Place.QUEUED
            if lane.idle and not one.ended:
                place = Place.HEAD
                lane = replace(lane, head=one.delivery_id)
            entries[one.delivery_id] = Entry(lane_id, one.delivery_id, position, place)
        after.append(replace(lane, last_position=position))
    await save(connection, after, now=now)
    return entries


async def lock(
    connection: AsyncConnection, lane_ids: Iterable[str], *, now: datetime
) -> dict[str, Lane]:
    """Lock these lanes until the transaction ends. A lane without a row gets one, so that two
    transactions which use a lane for the first time wait for each other too."""
    insert = insert_into(connection, _LANES)
    statement = insert.on_conflict_do_update(
        index_elements=["id"], set_={"updated_at": insert.excluded.updated_at}
    ).returning(_L.id, _L.head, _L.needs_head, _L.last_position)
    rows = [{"id": one, "last_position": 0, "updated_at": now} for one in sorted(lane_ids)]
    found = await connection.execute(statement, rows)
    return {row.id: Lane(*row) for row in found}


async def save(connection: AsyncConnection, lanes: Collection[Lane], *, now: datetime) -> None:
    """Store locked lanes."""
    if lanes:
        rows = [
            {
                "b_id": lane.id,
                "b_head": lane.head,
                "b_needs_head": lane.needs_head,
                "b_last_position": lane.last_position,
                "b_updated_at": now,
            }
            for lane in lanes
        ]
        await connection.execute(_SAVE, rows)


_SAVED = ("head", "needs_head", "last_position", "updated_at")
_SAVE = (
    update(_LANES)
    .where(_L.id == bindparam("b_id"))
    .values({name: bindparam(f"b_{name}", type_=_L[name].type) for name in _SAVED})
)


async def first_queued(connection: AsyncConnection, lane_ids: Iterable[str]) -> dict[str, str]:
    """Return the first queued delivery of each of these lanes that has one. Call it after the lanes
    are locked: a statement sees only what was committed before it began."""
    first = (
        select(_D.id)
        .where(_D.lane == _L.id, _QUEUED)
        .order_by(_D.lane_position, _D.id)
        .limit(1)
        .correlate(_LANES)
        .scalar_subquery()
    )
    rows = await connection.execute(select(_L.id, first).where(_L.id.in_(sorted(lane_ids))))
    return {lane: delivery for lane, delivery in rows if delivery is not None}


async def heads(connection: AsyncConnection, lane_ids: Collection[str]) -> dict[str, str]:
    """Return the heads of these lanes, without locking them. Lanes without one are left out."""
    if not lane_ids:
        return {}
    found = await connection.execute(
        select(_L.id, _L.head).where(_L.id.in_(sorted(set(lane_ids))), _L.head.is_not(None))
    )
    return {row.id: row.head for row in found}


async def needing_head(connection: AsyncConnection, *, limit: int) -> list[str]:
    """Return lanes whose next delivery could not move up, because its row was locked."""
    needing = select(_L.id).where(text("needs_head")).order_by(_L.id).limit(limit)
    return list((await connection.execute(needing)).scalars())


@dataclass(frozen=True, slots=True)
class Inspection:
    """Lanes that need attention. `stuck` are those whose head was deleted by retention, or does not
    lead them any more, by the head's id; `dead` are heads that are dead letters; `unused` are idle
    lanes. `last` is the last lane that was read, None after the last one of all."""

    stuck: dict[str, str]
    dead: list[str]
    unused: list[str]
    last: str | None


async def inspect(
    connection: AsyncConnection, *, unused_since: datetime, after: str, limit: int
) -> Inspection:
    """Read the next `limit` lanes, in one statement, so that it sees lanes and deliveries as of one
    moment."""
    page = select(_LANES).where(_L.id > after).order_by(_L.id).limit(limit).subquery()
    with_heads = select(
        *(page.c.id, page.c.head, page.c.needs_head, page.c.updated_at),
        *(_D.lane, _D.place, _D.status),
    ).outerjoin_from(page, Delivery.__table__, _D.id == page.c.head)
    rows = (await connection.execute(with_heads)).all()
    dead = DeliveryStatus.DEAD.value
    return Inspection(
        stuck={
            row.head: row.id
            for row in rows
            if row.head is not None and (row.lane, row.place) != (row.id, Place.HEAD.value)
        },
        dead=[row.head for row in rows if row.place == Place.HEAD.value and row.status == dead],
        unused=[
            row.id
            for row in rows
            if row.head is None and not row.needs_head and row.updated_at < unused_since
        ],
        last=max(row.id for row in rows) if len(rows) == limit else None,
    )


async def delete_idle(
    connection: AsyncConnection, lane_ids: Collection[str], *, unused_since: datetime
) -> int:
    """Delete those of these lanes that are idle and were not used since then. Returns how many."""
    unused = and_(_L.head.is_(None), ~_L.needs_head, _L.updated_at < unused_since)
    # Who lets a delivery join locks the row first. Locked rows are left for the next time.
    locking = select(_L.id).where(_L.id.in_(sorted(lane_ids)), unused)
    free = list((await connection.execute(locking.with_for_update(skip_locked=True))).scalars())
    if not free:
        return 0
    queued = exists().where(_D.lane == _L.id, _QUEUED)
    return (await connection.execute(delete(_LANES).where(_L.id.in_(free), ~queued))).rowcount


async def count_queued(connection: AsyncConnection, lane: str, *, most: int) -> int:
    """Return how many deliveries are queued in a lane, counted up to `most`."""
    queued = select(literal(1)).where(_D.lane == lane, _QUEUED)
    # in the order of the index, which keeps PostgreSQL from reading all of a long line
    first = queued.order_by(_D.lane_position, _D.id).limit(most).subquery()
    return (await connection.execute(select(func.count()).select_from(first))).scalar_one()

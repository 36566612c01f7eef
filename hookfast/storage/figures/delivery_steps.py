"""The deliveries that match a filter, over time and by status: counted when they changed, where the
counters know the filter, else by reading their rows, of which at most `MOST` are read."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Final

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.figures import Numbers, time_of_minute
from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.ids import first_id_at
from hookfast.storage.counting import reading
from hookfast.storage.counting.reading import Scope
from hookfast.storage.deliveries import deliveries
from hookfast.storage.deliveries.deliveries import DeliveryFilter
from hookfast.storage.tables import Endpoint

MOST: Final = 10_000
"""The most deliveries that are counted by their rows."""
_HOUR: Final = timedelta(hours=1)
_EPOCH: Final = time_of_minute(0)

_E = Endpoint.__table__.c


class TooMany(Enum):
    """Why deliveries are not counted: more than `MOST` match, or so many are in this time that not
    all of them are read to see which match."""

    MATCH = "match"
    READ = "read"


def precision(chosen: DeliveryFilter, since: datetime, *, now: datetime) -> timedelta | None:
    """Return the length of the times from `since` that the counters know the deliveries of; None if
    they do not know this filter."""
    if chosen.event_id or chosen.subscription_id or chosen.answer or chosen.reason:
        return None
    least = reading.precision(since, now=now)
    return least if chosen.event_type is None else max(_HOUR, least)


def are_counted(chosen: DeliveryFilter, edges: Sequence[datetime], *, now: datetime) -> bool:
    """Whether the counters know the deliveries between each two of these times."""
    least = precision(chosen, edges[0], now=now)
    return least is not None and not any((each - _EPOCH) % least for each in edges)


async def read(
    connection: AsyncConnection, chosen: DeliveryFilter, edges: Sequence[datetime], *, now: datetime
) -> list[Numbers] | TooMany:
    """Return the deliveries created between each two of these times (`reading.steps`) that match
    the filter, whose own times are ignored. If the counters know them between all times but the
    first or the last, only the rows of the first or the last step are read."""
    first = 0 if are_counted(chosen, edges[:1], now=now) else 1
    last = len(edges) if are_counted(chosen, edges[-1:], now=now) else len(edges) - 1
    inner = edges[first:last]
    if len(inner) < 2 or not are_counted(chosen, inner, now=now):
        return await _rows(connection, chosen, edges)
    found = await _counted(connection, chosen, inner)
    for side, ends in ((0, edges[: first + 1]), (len(edges), edges[last - 1 :])):
        if len(ends) > 1:
            rows = await _rows(connection, chosen, ends)
            if isinstance(rows, TooMany):
                return rows
            found[side:side] = rows
    return found


async def _counted(
    connection: AsyncConnection, chosen: DeliveryFilter, edges: Sequence[datetime]
) -> list[Numbers]:
    scope, only = Scope(chosen.tenant_id, chosen.endpoint_id), chosen.event_type
    found: list[Numbers] | None = None
    if await _exists(connection, chosen):
        if only is None:
            found = await reading.steps(connection, scope, edges, prefix="delivery:")
        else:
            by_type = await reading.steps_by_type(connection, scope, edges, only=[only])
            found = by_type.get(only)
    statuses = DeliveryStatus if chosen.status is None else (chosen.status,)
    return [
        Numbers(deliveries=Counter({status: each.deliveries[status] for status in statuses}))
        for each in found or [Numbers() for _ in edges[1:]]
    ]


async def _exists(connection: AsyncConnection, chosen: DeliveryFilter) -> bool:
    """Whether the endpoint is the tenant's, if both are given: its figures do not say whose it
    is."""
    if chosen.tenant_id is None or chosen.endpoint_id is None:
        return True
    owner = await connection.scalar(select(_E.tenant_id).where(_E.id == chosen.endpoint_id))
    return owner == chosen.tenant_id


async def _rows(
    connection: AsyncConnection, chosen: DeliveryFilter, edges: Sequence[datetime]
) -> list[Numbers] | TooMany:
    firsts = [first_id_at("dlv", edge) for edge in edges]
    found = [Numbers() for _ in edges[1:]]
    matching = 0
    for each in _ranges(replace(chosen, since=edges[0], until=edges[-1])):
        statement = deliveries.range_statement(each, limit=MOST + 1)
        rows = (await connection.execute(statement)).all()
        for id_, status, matches in rows:
            if matches:
                matching += 1
                found[bisect_right(firsts, id_) - 1].deliveries[DeliveryStatus(status)] += 1
        if matching > MOST:
            return TooMany.MATCH
        if len(rows) > MOST:
            return TooMany.READ
    return found


def _ranges(chosen: DeliveryFilter) -> list[DeliveryFilter]:
    """Return the filters that have one range of an index each, as a list reads them."""
    if not chosen.merges_statuses:
        return [chosen]
    return [replace(chosen, status=status) for status in DeliveryStatus]

"""The stored state of `hookfast.endpoints.limits`, exact across every worker.

Whoever wants to send takes a permission first, in a write transaction that holds the endpoint's
row in `endpoint_limits` (PostgreSQL locks the row; SQLite has one writer anyway). A request in
flight is a row in `in_flight` until it is released or, when its worker died, until its lease ends.

Clocks: slots and leases are compared with the clock of the worker that asks. Workers whose clocks
differ by `d` seconds may start up to `rate * d` requests too many within a second; up to
`MARGIN_SECONDS` of difference are covered, which is far more than NTP leaves. A lease seems to end
`d` too early to a worker whose clock is ahead: let it be that much longer than the longest request.

Locks are taken in the order deliveries, `endpoint_limits` (by id), `in_flight`, endpoints' health.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Table, bindparam, delete, func, insert, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.clock import Clock
from hookfast.endpoints.limits import Answer, Go, Limits, LimitState, decide, mean_after
from hookfast.storage.tables import EndpointLimits, InFlight

_PACE: Table = EndpointLimits.__table__
_IN_FLIGHT: Table = InFlight.__table__
_TIME = _IN_FLIGHT.c.until.type


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A request that is over. `seconds`: how long it took, None for one that was never made."""

    endpoint_id: str
    delivery_id: str
    seconds: float | None = None


async def acquire(
    connection: AsyncConnection,
    *,
    endpoint_id: str,
    delivery_id: str,
    limits: Limits,
    lease: timedelta,
    clock: Clock,
    waited: bool = True,
) -> Answer:
    """Whether this delivery may send now; a Go is for one request, and counted as in flight from
    here on, for `lease` at most. A Wait costs nothing.

    `clock` is read once the endpoint's lock is held, which may be a while after the call.
    `waited`: it comes because a Wait told it to. A newcomer (False) lines up behind those who
    wait; in doubt say True, which costs fairness and nothing else.
    """
    if not limits.any:
        return Go(clock())
    pace, now = await _locked(connection, endpoint_id, clock)
    others = 0
    if limits.max_in_flight is not None:
        others = await _count_others(connection, endpoint_id, delivery_id=delivery_id, now=now)
    answer, after = decide(
        pace,
        limits=limits,
        in_flight=others,
        waited=waited,
        spread=zlib.crc32(delivery_id.encode()) / 2**32,
        now=now,
    )
    await connection.execute(
        _MOVE,
        {
            "b_endpoint_id": endpoint_id,
            "b_next_slot_at": after.next_slot_at,
            "b_promised_until": after.promised_until,
        },
    )
    if limits.max_in_flight is not None and isinstance(answer, Go):
        row = {"delivery_id": delivery_id, "endpoint_id": endpoint_id, "until": answer.at + lease}
        await connection.execute(_LEASE, row)
    return answer


async def expire_lost(connection: AsyncConnection, *, before: datetime) -> int:
    """Delete the places that were free again before then: their workers died, and nobody has sent
    to their endpoints since. Returns how many."""
    return (await connection.execute(_FORGET_LOST, {"b_before": before})).rowcount


async def release(connection: AsyncConnection, ended: Sequence[Ended]) -> None:
    """Make room for others, and learn how long requests to these endpoints take. Requests whose
    lease has ended, or that never had one, change nothing but the mean."""
    durations: dict[str, list[float]] = {}
    for one in ended:
        durations.setdefault(one.endpoint_id, [])
        if one.seconds is not None:
            durations[one.endpoint_id].append(one.seconds)
    if not durations:
        return
    # by id: two transactions that lock the same endpoints lock them in one order
    means = await connection.execute(_MEANS, {"endpoint_ids": sorted(durations)})
    learned = [
        {
            "b_endpoint_id": endpoint_id,
            "b_mean_seconds": mean_after(mean_seconds, durations[endpoint_id]),
        }
        for endpoint_id, mean_seconds in means
        if durations[endpoint_id]
    ]
    if learned:
        await connection.execute(_LEARN, learned)
    await connection.execute(_GIVE_BACK, {"delivery_ids": [one.delivery_id for one in ended]})


async def reset(connection: AsyncConnection, endpoint_id: str, *, now: datetime) -> None:
    """Forget what waiting deliveries were promised: they will not come (a circuit held them), or
    the limits have changed. What may start when stays exact.

    It never waits for a lock, and so may come after any other: where another transaction has the
    row at this moment, the endpoint is in use and its promises heal by themselves.
    """
    await connection.execute(_RESET, {"b_endpoint_id": endpoint_id, "b_now": now})


_READ = (
    select(_PACE.c.next_slot_at, _PACE.c.promised_until, _PACE.c.mean_seconds)
    .where(_PACE.c.endpoint_id == bindparam("b_endpoint_id"))
    .with_for_update()
)
_MEANS = (
    select(_PACE.c.endpoint_id, _PACE.c.mean_seconds)
    .where(_PACE.c.endpoint_id.in_(bindparam("endpoint_ids", expanding=True)))
    .order_by(_PACE.c.endpoint_id)
    .with_for_update()
)
_MOVE = (
    update(_PACE)
    .where(_PACE.c.endpoint_id == bindparam("b_endpoint_id"))
    .values(
        next_slot_at=bindparam("b_next_slot_at", type_=_PACE.c.next_slot_at.type),
        promised_until=bindparam("b_promised_until", type_=_PACE.c.promised_until.type),
    )
)
_LEARN = (
    update(_PACE)
    .where(_PACE.c.endpoint_id == bindparam("b_endpoint_id"))
    .values(mean_seconds=bindparam("b_mean_seconds"))
)
_FORGET_LOST = delete(_IN_FLIGHT).where(_IN_FLIGHT.c.until < bindparam("b_before", type_=_TIME))
_FORGET = delete(_IN_FLIGHT).where(
    _IN_FLIGHT.c.endpoint_id == bindparam("b_endpoint_id"),
    or_(
        _IN_FLIGHT.c.until <= bindparam("b_now", type_=_TIME),
        _IN_FLIGHT.c.delivery_id == bindparam("b_delivery_id"),
    ),
)
_COUNT = (
    select(func.count())
    .select_from(_IN_FLIGHT)
    .where(_IN_FLIGHT.c.endpoint_id == bindparam("b_endpoint_id"))
)
_LEASE = insert(_IN_FLIGHT)
_GIVE_BACK = delete(_IN_FLIGHT).where(
    _IN_FLIGHT.c.delivery_id.in_(bindparam("delivery_ids", expanding=True))
)
_RESET = (
    update(_PACE)
    .where(
        _PACE.c.endpoint_id.in_(
            select(_PACE.c.endpoint_id)
            .where(
                _PACE.c.endpoint_id == bindparam("b_endpoint_id"),
                _PACE.c.promised_until > bindparam("b_now", type_=_PACE.c.promised_until.type),
            )
            .with_for_update(skip_locked=True)
        )
    )
    .values(promised_until=bindparam("b_now", type_=_PACE.c.promised_until.type))
)


async def _locked(
    connection: AsyncConnection, endpoint_id: str, clock: Clock
) -> tuple[LimitState, datetime]:
    """The endpoint's pace, whose row is ours until the transaction ends, and the time by then."""
    row = (await connection.execute(_READ, {"b_endpoint_id": endpoint_id})).one_or_none()
    if row is None:
        fresh = LimitState.fresh(clock())
        dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
        await connection.execute(
            dialect.insert(_PACE)
            .values(
                endpoint_id=endpoint_id,
                next_slot_at=fresh.next_slot_at,
                promised_until=fresh.promised_until,
                mean_seconds=fresh.mean_seconds,
            )
            .on_conflict_do_nothing(index_elements=["endpoint_id"])
        )
        # once more: another worker's row may have won
        row = (await connection.execute(_READ, {"b_endpoint_id": endpoint_id})).one()
    pace = LimitState(
        next_slot_at=row.next_slot_at,
        promised_until=row.promised_until,
        mean_seconds=row.mean_seconds,
    )
    return pace, clock()


async def _count_others(
    connection: AsyncConnection, endpoint_id: str, *, delivery_id: str, now: datetime
) -> int:
    """How many requests of other deliveries are under way. What this delivery had under way is over
    or its worker is dead, or it would not ask again."""
    await connection.execute(
        _FORGET, {"b_endpoint_id": endpoint_id, "b_delivery_id": delivery_id, "b_now": now}
    )
    counted = await connection.execute(_COUNT, {"b_endpoint_id": endpoint_id})
    return int(counted.scalar_one())

"""Permits to send within an endpoint's limits: the stored state of `hookfast.endpoints.limits`,
exact across all workers.

A permit is taken before each request, in a write transaction that locks the endpoint's row in
`endpoint_limits` (SQLite has one writer anyway). A request in flight is a row in `in_flight` until
it is released or, if its worker died, until its lease ends.

Clocks: slots and leases are compared with the clock of the worker that takes a permit. Workers
whose clocks differ by `d` seconds may start up to `rate * d` requests too many within a second. A
difference of up to `MARGIN_SECONDS` is covered, which is far more than NTP leaves. To a worker
whose clock is ahead by `d`, a lease seems to end `d` too early: make leases that much longer than
the longest request.

Locks are taken in the order deliveries, `endpoint_limits` (by id), `in_flight`, endpoints' health.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Table, bindparam, delete, func, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.clock import Clock
from hookfast.endpoints.limits import Granted, LimitDecision, Limits, LimitState, decide, mean_after
from hookfast.storage.database.prepared import AnyOf, Prepared
from hookfast.storage.database.upsert import insert_into
from hookfast.storage.tables import EndpointLimits, InFlight

_LIMITS: Table = EndpointLimits.__table__
_IN_FLIGHT: Table = InFlight.__table__
_TIME = _IN_FLIGHT.c.until.type


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedRequest:
    """A request that has ended after `seconds`. None: it was never made."""

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
) -> LimitDecision:
    """Decide whether a delivery may send now. `Granted` permits one request, which counts as in
    flight from here on, for `lease` at most. `Deferred` takes no permit.

    `clock` is read once the endpoint's row is locked, which may be a while after the call.
    `waited`: the delivery returns because it was deferred. A new one (False) queues behind those
    that wait. If in doubt, pass True, which costs only fairness.
    """
    if not limits.any:
        return Granted(clock())
    state, now = await _lock(connection, endpoint_id, clock)
    others = 0
    if limits.max_in_flight is not None:
        others = await _count_others(connection, endpoint_id, delivery_id=delivery_id, now=now)
    answer, after = decide(
        state,
        limits=limits,
        in_flight=others,
        waited=waited,
        spread=zlib.crc32(delivery_id.encode()) / 2**32,
        now=now,
    )
    await connection.execute(
        _SET_SLOTS,
        {
            "b_endpoint_id": endpoint_id,
            "b_next_slot_at": after.next_slot_at,
            "b_promised_until": after.promised_until,
        },
    )
    if limits.max_in_flight is not None and isinstance(answer, Granted):
        row = {"delivery_id": delivery_id, "endpoint_id": endpoint_id, "until": answer.at + lease}
        await connection.execute(_LEASE, row)
    return answer


async def expire_lost(connection: AsyncConnection, *, before: datetime) -> int:
    """Delete the requests in flight whose lease ended before then, and return how many. Their
    workers died, and their endpoints have taken no permit since."""
    return (await connection.execute(_DELETE_LOST, {"b_before": before})).rowcount


async def release(connection: AsyncConnection, ended: Sequence[EndedRequest]) -> None:
    """Remove ended requests from those in flight, and update the endpoints' mean durations. A
    request whose lease has ended, or that never had one, changes only the mean."""
    durations: dict[str, list[float]] = {}
    for one in ended:
        durations.setdefault(one.endpoint_id, [])
        if one.seconds is not None:
            durations[one.endpoint_id].append(one.seconds)
    if not durations:
        return
    # by id: two transactions that lock the same endpoints lock them in one order
    means = await _MEANS.rows(connection, {"endpoint_ids": sorted(durations)})
    new_means = [
        {
            "b_endpoint_id": endpoint_id,
            "b_mean_seconds": mean_after(mean_seconds, durations[endpoint_id]),
        }
        for endpoint_id, mean_seconds in means
        if durations[endpoint_id]
    ]
    if new_means:
        await _SET_MEAN.each(connection, new_means)
    await _RELEASE.rows(connection, {"delivery_ids": [one.delivery_id for one in ended]})


async def reset(connection: AsyncConnection, endpoint_id: str, *, now: datetime) -> None:
    """Forget the times promised to waiting deliveries, because a circuit held these or the limits
    have changed. The limits themselves stay exact.

    This never waits for a lock, so it may follow any other lock: if another transaction has locked
    the row at this moment, the endpoint is in use, and its promised times correct themselves.
    """
    await connection.execute(_RESET, {"b_endpoint_id": endpoint_id, "b_now": now})


_READ = (
    select(_LIMITS.c.next_slot_at, _LIMITS.c.promised_until, _LIMITS.c.mean_seconds)
    .where(_LIMITS.c.endpoint_id == bindparam("b_endpoint_id"))
    .with_for_update()
)
_MEANS = Prepared(
    select(_LIMITS.c.endpoint_id, _LIMITS.c.mean_seconds)
    .where(AnyOf(_LIMITS.c.endpoint_id, "endpoint_ids"))
    .order_by(_LIMITS.c.endpoint_id)
    .with_for_update()
)
_SET_SLOTS = (
    update(_LIMITS)
    .where(_LIMITS.c.endpoint_id == bindparam("b_endpoint_id"))
    .values(
        next_slot_at=bindparam("b_next_slot_at", type_=_LIMITS.c.next_slot_at.type),
        promised_until=bindparam("b_promised_until", type_=_LIMITS.c.promised_until.type),
    )
)
_SET_MEAN = Prepared(
    update(_LIMITS)
    .where(_LIMITS.c.endpoint_id == bindparam("b_endpoint_id"))
    .values(mean_seconds=bindparam("b_mean_seconds", type_=_LIMITS.c.mean_seconds.type))
)
_DELETE_LOST = delete(_IN_FLIGHT).where(_IN_FLIGHT.c.until < bindparam("b_before", type_=_TIME))
_DELETE_ENDED = delete(_IN_FLIGHT).where(
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
_RELEASE = Prepared(delete(_IN_FLIGHT).where(AnyOf(_IN_FLIGHT.c.delivery_id, "delivery_ids")))
_RESET = (
    update(_LIMITS)
    .where(
        _LIMITS.c.endpoint_id.in_(
            select(_LIMITS.c.endpoint_id)
            .where(
                _LIMITS.c.endpoint_id == bindparam("b_endpoint_id"),
                _LIMITS.c.promised_until > bindparam("b_now", type_=_LIMITS.c.promised_until.type),
            )
            .with_for_update(skip_locked=True)
        )
    )
    .values(promised_until=bindparam("b_now", type_=_LIMITS.c.promised_until.type))
)


async def _lock(
    connection: AsyncConnection, endpoint_id: str, clock: Clock
) -> tuple[LimitState, datetime]:
    """Lock the endpoint's limit state until the transaction ends. Return it, and the time after."""
    row = (await connection.execute(_READ, {"b_endpoint_id": endpoint_id})).one_or_none()
    if row is None:
        initial = LimitState.initial(clock())
        await connection.execute(
            insert_into(connection, _LIMITS)
            .values(
                endpoint_id=endpoint_id,
                next_slot_at=initial.next_slot_at,
                promised_until=initial.promised_until,
                mean_seconds=initial.mean_seconds,
            )
            .on_conflict_do_nothing(index_elements=["endpoint_id"])
        )
        # read again: another worker may have inserted the row first
        row = (await connection.execute(_READ, {"b_endpoint_id": endpoint_id})).one()
    return LimitState(**row._mapping), clock()


async def _count_others(
    connection: AsyncConnection, endpoint_id: str, *, delivery_id: str, now: datetime
) -> int:
    """Return how many requests of other deliveries are in flight. An earlier request of this
    delivery has ended, or its worker is dead: otherwise it would not take another permit."""
    await connection.execute(
        _DELETE_ENDED, {"b_endpoint_id": endpoint_id, "b_delivery_id": delivery_id, "b_now": now}
    )
    counted = await connection.execute(_COUNT, {"b_endpoint_id": endpoint_id})
    return int(counted.scalar_one())

"""Records attempts: the attempt's row, the delivery's new status and the endpoint's health, in one
transaction, together with whatever other attempts ended meanwhile. One that comes too late to move
its delivery (`late_attempts`) leaves its row, and counts for the endpoint."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass
from datetime import datetime
from enum import Flag, auto
from typing import Any

from sqlalchemy import Table, bindparam, case, func, insert, update
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.circuit import AttemptResult, Cause, Policy
from hookfast.clock import Clock, utc_now
from hookfast.delivery import AttemptFacts
from hookfast.outcome import DeliveryStatus
from hookfast.retry_plan import Next
from hookfast.storage import announcements, circuits, endpoint_health, endpoint_state, pace
from hookfast.storage.engine import Database
from hookfast.storage.group_commit import GroupCommit
from hookfast.storage.late_attempts import sift
from hookfast.storage.tables import Attempt, Delivery

_ATTEMPTS: Table = Attempt.__table__
_DELIVERIES: Table = Delivery.__table__

_MAX_BATCH = 500
_PATIENCE_SECONDS = 20.0
"""Below the time that Temporal gives an activity that does nothing but record."""

GONE_REASON = "The receiver answered 410 Gone."


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """One attempt to record. `next` is None for a failed manual resend, which moves nothing."""

    facts: AttemptFacts
    next: Next | None
    reason: str | None = None
    status_code: int | None = None
    error: str | None = None
    response_excerpt: str | None = None
    limited: bool = False  # it holds a place among the endpoint's requests in flight

    @property
    def succeeded(self) -> bool:
        return self.next is Next.DELIVERED


class News(Flag):
    """What a transaction left for others to do, once it is committed."""

    CIRCUIT = auto()  # the conductor: a circuit or a notice asks for its workflow
    EVENTS = auto()  # the relay: operational events have deliveries


class Recorder:
    """One per process. `record` returns once the attempt is committed."""

    def __init__(
        self,
        database: Database,
        *,
        policy: Policy | None = None,
        told: Callable[[News], None] | None = None,
        clock: Clock = utc_now,
    ) -> None:
        self._database = database
        self._policy = policy or Policy()
        self._told = told
        self._clock = clock
        self._group = GroupCommit(
            self._commit, name="recorder", most=_MAX_BATCH, patience=_PATIENCE_SECONDS
        )

    async def record(self, record: AttemptRecord) -> None:
        """Commit `record`. Recording the same attempt again changes nothing, so a caller that does
        not know whether its commit went through may repeat it. Raises the database's errors, and
        Unavailable when that takes too long."""
        await self._group.add(record)

    async def close(self) -> None:
        """Wait for what is being recorded."""
        await self._group.close()

    async def _commit(self, records: list[AttemptRecord]) -> list[None]:
        async with self._database.write() as connection:
            news = await _write(connection, records, policy=self._policy, now=self._clock())
        if news and self._told is not None:
            self._told(news)
        return [None] * len(records)


async def _write(
    connection: AsyncConnection, records: list[AttemptRecord], *, policy: Policy, now: datetime
) -> News:
    sifted = await sift(connection, [record.facts for record in records])
    # Once each: what took too long is given to us again while it still waits here. In the order of
    # delivery ids: two processes that lock the same rows lock them in one order.
    by_id = {r.facts.attempt_id: r for r in records if r.facts.attempt_id not in sifted.known}
    fresh = sorted(by_id.values(), key=lambda record: record.facts.delivery_id)
    news = News(0)
    if not fresh:
        return news
    await connection.execute(_ADD, [_attempt_row(record) for record in fresh])
    timely = [r for r in fresh if r.facts.attempt_id not in sifted.late and r.next is not None]
    moving = [_delivery_row(record, now) for record in timely]
    if moving:
        await connection.execute(_MOVE, moving)
    moved = {record.facts.attempt_id for record in timely}
    still = [_still_row(record, now) for record in fresh if record.facts.attempt_id not in moved]
    if still:
        await connection.execute(_STAY, still)
    await pace.give_back(connection, [_ended(record) for record in fresh if record.limited])
    gone = sorted({r.facts.endpoint_id for r in fresh if r.next is Next.GONE})
    if gone:
        # All rows at once and in order: another batch may fail and end the same endpoints.
        await endpoint_state.lock(connection, gone)
        await circuits.lock(connection, {r.facts.endpoint_id for r in fresh})
    for endpoint_id in gone:
        if await endpoint_state.disable(
            connection, endpoint_id, cause=Cause.GONE, reason=GONE_REASON, now=now
        ):
            news |= News.CIRCUIT | News.EVENTS
    let_go = {r.facts.attempt_id for r in timely if r.facts.delivery_id in sifted.held}
    results = [(record.facts.endpoint_id, _result(record, let_go)) for record in fresh]
    if await endpoint_health.count(connection, results, policy=policy, now=now):
        news |= News.CIRCUIT | News.EVENTS
    dead = [r.facts.delivery_id for r in timely if r.next in (Next.DEAD, Next.GONE)]
    if await announcements.deliveries_dead(connection, dead, now=now):
        news |= News.EVENTS
    return news


_ADD = insert(_ATTEMPTS)


def _result(record: AttemptRecord, let_go: Set[str]) -> AttemptResult:
    return AttemptResult(
        delivery_id=record.facts.delivery_id,
        at=record.facts.started_at,
        succeeded=record.succeeded,
        error=record.error,
        was_held=record.facts.attempt_id in let_go,
    )


def _ended(record: AttemptRecord) -> pace.Ended:
    return pace.Ended(
        endpoint_id=record.facts.endpoint_id,
        delivery_id=record.facts.delivery_id,
        seconds=record.facts.duration_ms / 1000,
    )


def _attempt_row(record: AttemptRecord) -> dict[str, Any]:
    facts = record.facts
    return {
        "id": facts.attempt_id,
        "delivery_id": facts.delivery_id,
        "endpoint_id": facts.endpoint_id,
        "number": facts.number,
        "trigger": facts.trigger,
        "started_at": facts.started_at,
        "duration_ms": facts.duration_ms,
        "result": facts.result,
        "status_code": record.status_code,
        "error": record.error,
        "response_excerpt": record.response_excerpt,
    }


_STATUS_AFTER = {
    Next.DELIVERED: DeliveryStatus.DELIVERED,
    Next.RETRY: DeliveryStatus.RETRYING,
    Next.GONE: DeliveryStatus.GONE,
    Next.DEAD: DeliveryStatus.DEAD,
}

# An attempt that was made twice counts once, as it does for the workflow.
_COUNTED = case(
    (_DELIVERIES.c.attempts < bindparam("b_number"), bindparam("b_number")),
    else_=_DELIVERIES.c.attempts,
)
# `started_at` too: an attempt proves that the workflow was started, even if the relay that started
# it died before it could say so.
_MOVE = (
    update(_DELIVERIES)
    .where(_DELIVERIES.c.id == bindparam("b_id"))
    .values(
        status=bindparam("b_status"),
        reason=bindparam("b_reason"),
        attempts=_COUNTED,
        retries=bindparam("b_retries"),
        next_attempt_at=bindparam("b_next_attempt_at", type_=_DELIVERIES.c.next_attempt_at.type),
        updated_at=bindparam("b_now", type_=_DELIVERIES.c.updated_at.type),
        finished_at=bindparam("b_finished_at", type_=_DELIVERIES.c.finished_at.type),
        started_at=func.coalesce(
            _DELIVERIES.c.started_at, bindparam("b_now", type_=_DELIVERIES.c.started_at.type)
        ),
    )
)
_STAY = (
    update(_DELIVERIES)
    .where(_DELIVERIES.c.id == bindparam("b_id"))
    .values(
        attempts=_COUNTED,
        updated_at=bindparam("b_now", type_=_DELIVERIES.c.updated_at.type),
    )
)


def _delivery_row(record: AttemptRecord, now: datetime) -> dict[str, Any]:
    assert record.next is not None  # noqa: S101 - the caller chose these
    status = _STATUS_AFTER[record.next]
    return {
        "b_id": record.facts.delivery_id,
        "b_number": record.facts.number,
        "b_status": status.value,
        "b_reason": record.reason,
        "b_retries": record.facts.retries,
        "b_next_attempt_at": record.facts.next_attempt_at,
        "b_finished_at": now if status.finished else None,
        "b_now": now,
    }


def _still_row(record: AttemptRecord, now: datetime) -> dict[str, Any]:
    facts = record.facts
    return {"b_id": facts.delivery_id, "b_number": facts.number, "b_now": now}

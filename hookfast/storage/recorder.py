"""Records attempts: the attempt's row, the delivery's new status and the endpoint's health, in one
transaction, together with whatever other attempts ended meanwhile (group commit).

While one transaction runs, the next batch gathers. Under load a commit (one fsync on SQLite) is
thus shared by many deliveries, and at rest nothing waits.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Table, bindparam, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.clock import Clock, utc_now
from hookfast.delivery import AttemptFacts
from hookfast.outcome import DeliveryStatus
from hookfast.retry_plan import Next
from hookfast.storage import endpoint_health
from hookfast.storage.engine import Database, Kind
from hookfast.storage.tables import Attempt, Delivery, Endpoint

_ATTEMPTS: Table = Attempt.__table__
_DELIVERIES: Table = Delivery.__table__
_ENDPOINTS: Table = Endpoint.__table__

_MAX_BATCH = 500

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

    @property
    def succeeded(self) -> bool:
        return self.next is Next.DELIVERED


class Recorder:
    """One per process. `record` returns once the attempt is committed."""

    def __init__(self, database: Database, *, clock: Clock = utc_now) -> None:
        self._database = database
        self._clock = clock
        self._waiting: list[tuple[AttemptRecord, asyncio.Future[None]]] = []
        self._flusher: asyncio.Task[None] | None = None

    async def record(self, record: AttemptRecord) -> None:
        """Commit `record`. Recording the same attempt again changes nothing, so a caller that does
        not know whether its commit went through may repeat it. Raises the database's errors."""
        committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((record, committed))
        if self._flusher is None:
            self._flusher = asyncio.create_task(self._flush(), name="recorder")
        await committed

    async def close(self) -> None:
        """Wait for what is being recorded."""
        if self._flusher is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await self._flusher

    async def _flush(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:_MAX_BATCH], self._waiting[_MAX_BATCH:]
                await self._commit(batch)
        finally:
            self._flusher = None

    async def _commit(self, batch: Sequence[tuple[AttemptRecord, asyncio.Future[None]]]) -> None:
        try:
            async with self._database.write() as connection:
                await _write(
                    connection,
                    [record for record, _ in batch],
                    kind=self._database.kind,
                    now=self._clock(),
                )
        except Exception as error:
            if len(batch) > 1:  # one bad record must not fail its neighbours
                for single in batch:
                    await self._commit([single])
                return
            for _, committed in batch:
                if not committed.done():
                    committed.set_exception(error)
        else:
            for _, committed in batch:
                if not committed.done():
                    committed.set_result(None)


async def _write(
    connection: AsyncConnection, records: list[AttemptRecord], *, kind: Kind, now: datetime
) -> None:
    # In the order of delivery ids: two processes that lock the same rows lock them in one order.
    records.sort(key=lambda record: record.facts.delivery_id)
    known = await _already_recorded(connection, records)
    fresh = [record for record in records if record.facts.attempt_id not in known]
    if not fresh:
        return
    await connection.execute(_ADD, [_attempt_row(record) for record in fresh])
    moving = [_delivery_row(record, now) for record in fresh if record.next is not None]
    if moving:
        await connection.execute(_MOVE, moving)
    still = [_still_row(record, now) for record in fresh if record.next is None]
    if still:
        await connection.execute(_STAY, still)
    await endpoint_health.count(connection, [_result(record) for record in fresh], kind=kind)
    gone = sorted({record.facts.endpoint_id for record in fresh if record.next is Next.GONE})
    if gone:
        await connection.execute(
            update(_ENDPOINTS)
            .where(_ENDPOINTS.c.id.in_(gone))
            .values(state="disabled", state_reason=GONE_REASON, updated_at=now)
        )


_KNOWN = select(_ATTEMPTS.c.id).where(_ATTEMPTS.c.id.in_(bindparam("ids", expanding=True)))
_ADD = insert(_ATTEMPTS)


async def _already_recorded(
    connection: AsyncConnection, records: Iterable[AttemptRecord]
) -> set[str]:
    rows = await connection.execute(
        _KNOWN, {"ids": [record.facts.attempt_id for record in records]}
    )
    return set(rows.scalars())


def _result(record: AttemptRecord) -> endpoint_health.Result:
    return endpoint_health.Result(
        endpoint_id=record.facts.endpoint_id,
        at=record.facts.started_at,
        succeeded=record.succeeded,
        error=record.error,
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

# `started_at` too: an attempt proves that the workflow was started, even if the relay that started
# it died before it could say so.
_MOVE = (
    update(_DELIVERIES)
    .where(_DELIVERIES.c.id == bindparam("b_id"))
    .values(
        status=bindparam("b_status"),
        reason=bindparam("b_reason"),
        attempts=_DELIVERIES.c.attempts + 1,
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
        attempts=_DELIVERIES.c.attempts + 1,
        updated_at=bindparam("b_now", type_=_DELIVERIES.c.updated_at.type),
    )
)


def _delivery_row(record: AttemptRecord, now: datetime) -> dict[str, Any]:
    assert record.next is not None  # noqa: S101 - the caller chose these
    status = _STATUS_AFTER[record.next]
    return {
        "b_id": record.facts.delivery_id,
        "b_status": status.value,
        "b_reason": record.reason,
        "b_retries": record.facts.retries,
        "b_next_attempt_at": record.facts.next_attempt_at,
        "b_finished_at": now if status.finished else None,
        "b_now": now,
    }


def _still_row(record: AttemptRecord, now: datetime) -> dict[str, Any]:
    return {"b_id": record.facts.delivery_id, "b_now": now}

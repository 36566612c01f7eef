"""Records attempts: the attempt's row, its delivery's new state and its endpoint's health, in one
transaction with other attempts that have ended meanwhile. The delivery's new state is computed
here, from its current life."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Flag, auto
from typing import Any

import structlog
from sqlalchemy import Table, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.clock import Clock, rfc3339, utc_now
from hookfast.deliveries.evidence import Evidence
from hookfast.deliveries.facts import AttemptEnded, Trigger
from hookfast.deliveries.figures import Owner, Tally
from hookfast.deliveries.lane import DeadLetterPolicy
from hookfast.endpoints.circuit import Cause, Policy
from hookfast.errors import NotFound, Unavailable
from hookfast.logs.kind import Kind
from hookfast.storage.circuits import circuits
from hookfast.storage.database.after_commit import after_commit
from hookfast.storage.database.engine import Database
from hookfast.storage.database.group_commit import GroupCommit
from hookfast.storage.database.prepared import Prepared, Writes
from hookfast.storage.deliveries import attempts, life_rows, lives, permits
from hookfast.storage.deliveries.life_rows import LifeChange, Locked
from hookfast.storage.endpoints import endpoint_health, endpoint_state
from hookfast.storage.tables import Attempt

log = structlog.get_logger()

_ATTEMPTS: Table = Attempt.__table__

_MAX_GROUP = 500
_QUICK = 200  # records whose statements take less than 5 ms
_PATIENCE_SECONDS = 20.0
"""Shorter than the timeout of an activity that only records."""

GONE_REASON = "The receiver answered 410 Gone."


@dataclass(slots=True, kw_only=True)
class AttemptRecord:
    """An attempt that was made, and its record. `excerpt` is the start of the response body; it and
    `evidence` are None where a workflow records the attempt. `limited`: the attempt may count as
    one of the endpoint's requests in flight; `in_batch`: a batch made it; `first_try`: no earlier
    call has tried to record it; `trace_id` is its event's, for the log. `change` is how it changed
    its delivery; None: it is not recorded yet."""

    delivery_id: str
    ended: AttemptEnded
    trace_id: str | None = None
    excerpt: str | None = None
    evidence: Evidence | None = None
    limited: bool = True
    in_batch: bool = False
    first_try: bool = False
    change: LifeChange | None = None


class Wakeup(Flag):
    """The parts of the worker that have work to do after a commit."""

    CIRCUIT = auto()  # the workflow starter: a circuit or a notice requests its workflow
    OUTBOX = auto()  # the relay: an operational event, or the next delivery of a lane


class Recorder:
    """Records attempts, in groups. One per process."""

    def __init__(
        self,
        database: Database,
        *,
        policy: Policy | None = None,
        dead_letters: DeadLetterPolicy = DeadLetterPolicy.CONTINUE,
        on_commit: Callable[[Wakeup], None] | None = None,
        clock: Clock = utc_now,
    ) -> None:
        self._database = database
        self._policy = policy or Policy()
        self._dead_letters = dead_letters
        self._on_commit = on_commit
        self._clock = clock
        self._group = GroupCommit(
            self._commit, name="recorder", most=_MAX_GROUP, patience=_PATIENCE_SECONDS
        )

    async def record(
        self, record: AttemptRecord, *, within: float = _PATIENCE_SECONDS
    ) -> LifeChange:
        """Commit the record, and return how it changed its delivery.

        Recording an attempt again changes nothing, so a caller that does not know whether its
        commit went through may repeat it. If the caller is cancelled, the record is committed
        nevertheless. Raises NotFound for a delivery without a row, the database's errors, and
        Unavailable after `within` seconds."""
        committed = self._group.begin(record)
        await asyncio.wait((committed,), timeout=within)
        if not committed.done():
            self._group.give_up(committed)  # if it has begun, it may be committed late
            raise Unavailable("The database is busy.")
        record.change = change = committed.result()
        if change is None:
            raise NotFound(f"There is no delivery {record.delivery_id}.")
        return change

    async def close(self) -> None:
        """Wait until all records are committed."""
        await self._group.close()

    async def _commit(self, records: list[AttemptRecord]) -> list[LifeChange | None]:
        async with self._database.write(quick=len(records) <= _QUICK) as connection:
            changes, committed_for = await _write(
                connection,
                records,
                policy=self._policy,
                dead_letters=self._dead_letters,
                now=self._clock(),
            )
        if committed_for and self._on_commit is not None:
            self._on_commit(committed_for)
        return [changes.get(record.delivery_id) for record in records]


async def _write(
    connection: AsyncConnection,
    records: list[AttemptRecord],
    *,
    policy: Policy,
    now: datetime,
    dead_letters: DeadLetterPolicy = DeadLetterPolicy.CONTINUE,
) -> tuple[dict[str, LifeChange], Wakeup]:
    locked = await life_rows.lock(connection, {record.delivery_id for record in records})
    # a separate statement after the locks, so that it sees everything committed before them
    repeated = [record for record in records if not record.first_try]
    known = await _recorded(connection, repeated) if repeated else frozenset[str]()
    # A record that took too long may be submitted again while the first still waits: keep one.
    by_id = {
        record.ended.attempt_id: record
        for record in records
        if record.ended.attempt_id not in known and record.delivery_id in locked
    }
    new = sorted(by_id.values(), key=lambda record: (record.delivery_id, record.ended.started_at))
    writes = Writes()
    writes.add(_ADD, [_attempt_row(one, locked[one.delivery_id].endpoint_id) for one in new])
    facts = [(record.delivery_id, record.ended) for record in new]
    changes: dict[str, LifeChange] = {}
    # before `apply`, so that a delivery's last attempt is logged before its end
    after_commit(connection, lambda: _log_attempts(new, changes))
    # A life uses its workflow's time, which may be ahead of ours.
    latest = max([now, *(record.ended.ended_at for record in new)])
    changes |= await lives.apply(
        connection,
        facts,
        now=latest,
        batched={record.delivery_id for record in new if record.in_batch},
        locked=locked,
        traces={one.delivery_id: one.trace_id for one in new if one.trace_id is not None},
        dead_letters=dead_letters,
        tally=_tally(new, locked),
        together_with=writes,
    )
    # an operational event, or the next delivery of a lane
    waiting = any(one.died or one.left_lane for one in changes.values())
    committed_for = Wakeup.OUTBOX if waiting else Wakeup(0)
    if new:
        committed_for |= await _update_endpoints(connection, new, changes, policy=policy, now=now)
    return changes, committed_for


def _tally(records: Iterable[AttemptRecord], locked: Mapping[str, Locked]) -> Tally:
    """Count these attempts."""
    tally = Tally()
    for record in records:
        delivery, ended = locked[record.delivery_id], record.ended
        tally.attempt(
            Owner(delivery.tenant_id, delivery.endpoint_id, delivery.event_type),
            ended.started_at,
            ended.outcome.result,
            ended.outcome.status_code,
            ended.outcome.duration_ms,
            first=ended.attempt.trigger is Trigger.FIRST,
        )
    return tally


def _log_attempts(records: Collection[AttemptRecord], changes: Mapping[str, LifeChange]) -> None:
    for record in records:
        change, ended = changes[record.delivery_id], record.ended
        life, outcome = change.after, ended.outcome
        line: dict[str, Any] = change.locked.ids
        line |= {
            "attempt": ended.attempt.number,
            "trigger": ended.attempt.trigger.value,
            "result": outcome.result.value,
            "duration_ms": round(outcome.duration_ms, 1),
            "status": life.status.value,
        }
        # values that are None are left out: they cost as much as any other
        if outcome.status_code is not None:
            line["status_code"] = outcome.status_code
        if life.reason is not None:
            line["reason"] = life.reason.value
        if (next_at := life.next_attempt_at) is not None:
            line["next_attempt_at"] = rfc3339(next_at)
        if record.trace_id is not None:
            line["trace_id"] = record.trace_id
        log.info("An attempt ended.", kind=Kind.ATTEMPT_ENDED, **line)


async def _update_endpoints(
    connection: AsyncConnection,
    new: list[AttemptRecord],
    changes: dict[str, LifeChange],
    *,
    policy: Policy,
    now: datetime,
) -> Wakeup:
    """Release the attempts' permits, disable endpoints that answered 410, and update the health of
    all endpoints."""
    committed_for = Wakeup(0)
    endpoint_of = {one.delivery_id: one.endpoint_id for one in changes.values()}
    await permits.release(
        connection,
        [
            permits.EndedRequest(
                endpoint_id=endpoint_of[record.delivery_id],
                delivery_id=record.delivery_id,
                seconds=record.ended.outcome.duration_ms / 1000,
            )
            for record in new
            if record.limited
        ],
    )
    gone = {endpoint_of[one.delivery_id]: one for one in new if one.ended.outcome.gone}
    if gone:
        # All rows at once and in order: another batch may fail and end the same endpoints.
        await endpoint_state.lock(connection, gone)
        await circuits.lock(connection, {endpoint_of[record.delivery_id] for record in new})
    for endpoint_id, record in sorted(gone.items()):
        if await endpoint_state.disable(
            connection,
            endpoint_id,
            cause=Cause.GONE,
            reason=GONE_REASON,
            last_error=record.ended.outcome.error,
            now=now,
        ):
            committed_for |= Wakeup.CIRCUIT | Wakeup.OUTBOX
    left_hold = {one.delivery_id for one in changes.values() if one.left_hold}
    ended = [(endpoint_of[one.delivery_id], one.delivery_id, one.ended) for one in new]
    if await endpoint_health.count(connection, ended, policy=policy, now=now, left_hold=left_hold):
        committed_for |= Wakeup.CIRCUIT | Wakeup.OUTBOX
    return committed_for


async def _recorded(
    connection: AsyncConnection, records: Collection[AttemptRecord]
) -> frozenset[str]:
    """Return the ids of those attempts that are already recorded."""
    c = _ATTEMPTS.c
    rows = await connection.execute(
        select(c.id).where(
            attempts.where_delivery_in(sorted({record.delivery_id for record in records})),
            c.id.in_(sorted(record.ended.attempt_id for record in records)),
        )
    )
    return frozenset(rows.scalars())


_ADD = Prepared(insert(_ATTEMPTS))


def _attempt_row(record: AttemptRecord, endpoint_id: str) -> dict[str, Any]:
    ended, evidence = record.ended, record.evidence
    return {
        "id": ended.attempt_id,
        "delivery_id": record.delivery_id,
        "endpoint_id": endpoint_id,
        "number": ended.attempt.number,
        "trigger": ended.attempt.trigger,
        "started_at": ended.started_at,
        "duration_ms": ended.outcome.duration_ms,
        "result": ended.outcome.result,
        "status_code": ended.outcome.status_code,
        "error": ended.outcome.error,
        "response_excerpt": record.excerpt,
        "url": evidence and evidence.url,
        "request_headers": evidence and evidence.request_headers,
        "response_headers": evidence and evidence.response_headers,
    }

"""The stored lives of deliveries. `apply` is the only code that writes a delivery's state: it locks
the rows, applies facts to the current lives, and saves the results.

Rows are locked in the order of their ids, before anything else that is locked with them: endpoints,
circuits, limits. Two transactions that share rows always wait for each other in the same order.

The outbox columns (`started_at`, `leased_until`, `wakes`, `urgency`) say whether the workflow knows
of a change. Code that changes a life from outside its workflow puts the row into the outbox in the
same transaction (`wake`), so that a crash right after the commit loses no action. A batch does so
after each first attempt that does not finish its delivery, which then gets its own workflow.

If the head of a lane leaves it, the next delivery moves up in the same transaction, so that a crash
at any line leaves either the old head or the new one, which is in the outbox.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import structlog
from sqlalchemy import Select, Table, bindparam, case, func, null, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.answer import LastAnswer
from hookfast.deliveries.facts import Action, AttemptEnded, Fact
from hookfast.deliveries.lane import DeadLetterPolicy, Place
from hookfast.deliveries.life import Life, Phase, Resend, apply_fact
from hookfast.deliveries.messages import Urgency
from hookfast.deliveries.outcome import DeliveryStatus, Reason, Result
from hookfast.logs.catalogue import Kind
from hookfast.storage.database.after_commit import after_commit
from hookfast.storage.events import lanes
from hookfast.storage.owners.announcements import deliveries_dead
from hookfast.storage.tables import Delivery
from hookfast.telemetry import instruments

log = structlog.get_logger()

_DELIVERIES: Table = Delivery.__table__
_C = _DELIVERIES.c

_READ = (
    "status",
    "reason",
    "attempts",
    "retries",
    "due_at",
    "recheck_at",
    "began_at",
    "excluded_seconds",
    "waiting_since",
    "resend_asked_at",
    "resend_yields",
    "resend_not_before",
    "released",
    "round",
    "last_error",
    "finished_at",
    "batch_until",
    "place",
)
COLUMNS = tuple(_C[name] for name in _READ)
"""The columns that `life_of` reads, in this order."""
_PHASES = {
    one.value: Phase.WAITING
    if one in (DeliveryStatus.PENDING, DeliveryStatus.RETRYING)
    else Phase(one.value)
    for one in DeliveryStatus
}
_NOTHING = timedelta(0)
_ANSWER = ("last_attempt_at", "last_result", "last_status_code", "last_duration_ms")
WRITTEN = frozenset({*_READ, *_ANSWER, "next_attempt_at", "updated_at"})
"""The columns with a delivery's state. After the row's insert, only `apply` writes them."""


@dataclass(frozen=True, slots=True)
class Locked:
    """A delivery whose row is locked until the transaction ends. `wakes` counts how often it was
    put back into the outbox; at 0, it never requested a workflow of its own. `answer` belongs to
    its newest recorded attempt; it decides nothing, so it is not in the life. `lane` is its lane,
    None without one."""

    delivery_id: str
    event_id: str
    endpoint_id: str
    tenant_id: str
    event_type: str
    wakes: int
    life: Life
    answer: LastAnswer | None = None
    lane: str | None = None

    @property
    def ids(self) -> dict[str, str]:
        """The fields of log lines that say which delivery it is."""
        return {
            "delivery_id": self.delivery_id,
            "event_id": self.event_id,
            "endpoint_id": self.endpoint_id,
            "tenant_id": self.tenant_id,
            "event_type": self.event_type,
        }


@dataclass(frozen=True, slots=True)
class Change:
    """A delivery, as it was locked, and its life after facts were applied, which is the same if
    nothing changed. `answer` belongs to its newest recorded attempt, with those of the facts."""

    locked: Locked
    after: Life
    answer: LastAnswer | None = None

    @property
    def delivery_id(self) -> str:
        return self.locked.delivery_id

    @property
    def endpoint_id(self) -> str:
        return self.locked.endpoint_id

    @property
    def before(self) -> Life:
        return self.locked.life

    @property
    def ended(self) -> bool:
        """Whether the delivery ended with these facts."""
        return self.after.phase.ended and not self.before.phase.ended

    @property
    def died(self) -> bool:
        """Whether the delivery became a dead letter with these facts."""
        return self.ended and self.after.phase in (Phase.DEAD, Phase.GONE)

    @property
    def left_hold(self) -> bool:
        """Whether the delivery was held before these facts, and is not held any more."""
        return self.before.phase is Phase.HELD and self.after.phase is not Phase.HELD

    @property
    def left_lane(self) -> bool:
        """Whether the delivery was the head of its lane before these facts, and is not any more."""
        return self.before.place is Place.HEAD and self.after.place is not Place.HEAD

    @property
    def never_started(self) -> bool:
        """Whether the delivery was queued from the beginning, so that it never had a workflow."""
        locked, before = self.locked, self.before
        return before.place is Place.QUEUED and before.round == 0 and locked.wakes == 0

    @property
    def joined_line(self) -> bool:
        """Whether the delivery is queued in its lane since these facts."""
        queued = Place.QUEUED
        return self.after.place is queued and self.before.place is not queued


def life_of(row: Sequence[Any]) -> Life:
    """Return the life stored in a row that ends with `COLUMNS`."""
    (
        status,
        reason,
        attempts,
        retries,
        due_at,
        recheck_at,
        began_at,
        excluded_seconds,
        waiting_since,
        resend_asked_at,
        resend_yields,
        resend_not_before,
        released,
        round_,
        last_error,
        finished_at,
        batch_until,
        place,
    ) = row[-len(_READ) :]
    phase = _PHASES[status]
    if phase is Phase.WAITING and reason == Reason.ENDPOINT_LIMIT.value:
        phase = Phase.LIMITED
    resend = None
    if resend_asked_at is not None:
        resend = Resend(resend_asked_at, bool(resend_yields), resend_not_before)
    return Life(
        phase=phase,
        reason=None if reason is None else Reason(reason),
        attempts=attempts,
        retries=retries,
        due_at=due_at,
        recheck_at=recheck_at,
        began_at=began_at,
        excluded=timedelta(seconds=excluded_seconds) if excluded_seconds else _NOTHING,
        waiting_since=waiting_since,
        resend=resend,
        released=bool(released),
        round=round_,
        last_error=last_error,
        finished_at=finished_at,
        batch_until=batch_until,
        place=None if place is None else Place(place),
    )


async def read(connection: AsyncConnection, delivery_id: str) -> Life | None:
    """Return a delivery's life without locking its row."""
    row = (await connection.execute(select(*COLUMNS).where(_C.id == delivery_id))).first()
    return None if row is None else life_of(row)


async def lock(connection: AsyncConnection, delivery_ids: Collection[str]) -> dict[str, Locked]:
    """Lock these deliveries until the transaction ends. Those without a row are left out."""
    return await _lock(connection, _LOCK, delivery_ids)


async def _lock(
    connection: AsyncConnection, statement: Select[Any], delivery_ids: Collection[str]
) -> dict[str, Locked]:
    rows = await connection.execute(statement, {"ids": sorted(delivery_ids)})
    return {
        row.id: Locked(
            row.id,
            row.event_id,
            row.endpoint_id,
            row.tenant_id,
            row.event_type,
            row.wakes,
            life_of(row),
            _answer_of(row),
            row.lane,
        )
        for row in rows
    }


def _answer_of(row: Any) -> LastAnswer | None:
    if row.last_result is None:
        return None
    return LastAnswer(
        row.last_attempt_at, Result(row.last_result), row.last_status_code, row.last_duration_ms
    )


def _newest_answer(known: LastAnswer | None, ended: AttemptEnded, life: Life) -> LastAnswer | None:
    """Return the answer to the newest attempt, after an attempt was recorded: `life` is the one
    before it. Numbers count before times, because hosts' clocks differ. Two attempts have the same
    number if the first one's worker was frozen."""
    number, outcome = ended.attempt.number, ended.outcome
    if number < life.attempts:
        return known
    if number == life.attempts and known is not None and ended.started_at < known.attempt_at:
        return known
    return LastAnswer(ended.started_at, outcome.result, outcome.status_code, outcome.duration_ms)


async def apply(
    connection: AsyncConnection,
    facts: Iterable[tuple[str, Fact]],
    *,
    now: datetime,
    wake: int | None = None,
    batched: Collection[str] = (),
    locked: Mapping[str, Locked] | None = None,
    traces: Mapping[str, str] | None = None,
    dead_letters: DeadLetterPolicy = DeadLetterPolicy.CONTINUE,
) -> dict[str, Change]:
    """Apply facts, each with its delivery's id, in order, to the current lives. Returns a change
    for every delivery that has a row. `locked` avoids locking the rows twice. Deliveries that end
    are counted and logged after the commit, with their trace ids from `traces`.

    Without `wake`, the facts come from the delivery's own workflow, which acts on the result. With
    it, changed deliveries go into the outbox with that urgency, so that their workflow is woken.
    The facts of deliveries in `batched` come from a batch: a delivered one is done, and any other
    continues in its own workflow, as does one that requested a workflow in the meantime.
    `dead_letters` says whether deliveries that end as dead letters leave their lanes.
    """
    facts = list(facts)
    if locked is None:
        locked = await lock(connection, {delivery_id for delivery_id, _ in facts})
    lives = {delivery_id: one.life for delivery_id, one in locked.items()}
    answers = {delivery_id: one.answer for delivery_id, one in locked.items()}
    for delivery_id, fact in facts:
        if (life := lives.get(delivery_id)) is None:
            continue
        if isinstance(fact, AttemptEnded):
            answers[delivery_id] = _newest_answer(answers[delivery_id], fact, life)
        lives[delivery_id] = apply_fact(life, fact, now=now)
        if _leaves_lane(lives[delivery_id], life, dead_letters):
            lives[delivery_id] = apply_fact(lives[delivery_id], Action.LEAVE_LANE, now=now)
    changes = {key: Change(one, lives[key], answers[key]) for key, one in locked.items()}
    changed = [
        one
        for one in changes.values()
        if one.after != one.before or one.answer is not one.locked.answer
    ]
    silent, woken = [], []
    for one in changed:
        urgency = wake
        done = one.after.phase is Phase.DELIVERED and not locked[one.delivery_id].wakes
        if one.delivery_id in batched and not done:
            urgency = Urgency.RETRY
        if one.after.place is Place.QUEUED or one.never_started:
            urgency = None  # it has no workflow, or one that has nothing to do before its turn
        if urgency is None:
            silent.append(_values(one, now))
        else:
            woken.append(_values(one, now) | {"b_urgency": urgency})
    if silent:
        await connection.execute(_SAVE, silent)
    if woken:
        await connection.execute(_SAVE_AND_WAKE, woken)
    changes |= await _move_lanes(connection, changed, now=now)
    dead = [one.delivery_id for one in changed if one.died]
    await deliveries_dead(connection, dead, now=now)
    if ended := [one for one in changed if one.ended]:
        after_commit(connection, partial(_report_ended, ended, traces or {}))
    return changes


def _leaves_lane(life: Life, before: Life, policy: DeadLetterPolicy) -> bool:
    """Whether a delivery that has just become a dead letter leaves its lane. That of a deleted
    endpoint does in any case: nobody could send it again."""
    if not life.blocks_lane or before.phase is Phase.DEAD:
        return False
    return policy is DeadLetterPolicy.CONTINUE or life.reason is Reason.ENDPOINT_DELETED


async def _move_lanes(
    connection: AsyncConnection, changed: Collection[Change], *, now: datetime
) -> dict[str, Change]:
    """Let the next deliveries move up where these left the head of their lane or joined the line.
    Returns those of the given changes that moved up."""
    left = {one.delivery_id for one in changed if one.left_lane}
    moving = {one.locked.lane for one in changed if one.left_lane or one.joined_line}
    lane_ids = {lane for lane in moving if lane is not None}
    if not lane_ids:
        return {}
    moved = await advance(connection, lane_ids, left=left, now=now)
    before = {one.delivery_id: one for one in changed}
    return {
        key: replace(before[key], after=one.after) for key, one in moved.items() if key in before
    }


async def advance(
    connection: AsyncConnection,
    lane_ids: Collection[str],
    *,
    left: Collection[str] = (),
    now: datetime,
) -> dict[str, Change]:
    """Let the first queued delivery of each of these lanes move up, if the lane has no head or its
    head is in `left`. Returns their changes; ring the doorbell after the commit.

    A row that another transaction has locked is never waited for (it may wait for this lane) nor
    passed over (that would break the order): the lane is marked, and a worker tries again.
    """
    locked = await lanes.lock(connection, lane_ids, now=now)
    free = [one for one in locked.values() if one.head is None or one.head in left]
    if not free:
        return {}
    # in statements after the locks, so that they see everything committed before them
    first = await lanes.first_queued(connection, [lane.id for lane in free])
    found = await _lock(connection, _LOCK_QUEUED, first.values()) if first else {}
    changes = {
        key: Change(one, apply_fact(one.life, Action.MOVE_UP, now=now), one.answer)
        for key, one in found.items()
    }
    started, woken = [], []
    for one in changes.values():
        if one.never_started:
            started.append(_values(one, now))
            continue
        resend = one.after.resend
        of_job = resend is not None and resend.yields_to_circuit
        woken.append(_values(one, now) | {"b_urgency": Urgency.JOB if of_job else Urgency.RETRY})
    if started:
        await connection.execute(_SAVE_AND_START, started)
    if woken:
        await connection.execute(_SAVE_AND_WAKE, woken)
    after = [
        replace(
            lane,
            head=first[lane.id] if first.get(lane.id) in found else None,
            needs_head=lane.id in first and first[lane.id] not in found,
        )
        for lane in free
    ]
    await lanes.save(connection, [one for one in after if one != locked[one.id]], now=now)
    return changes


def _report_ended(ended: Iterable[Change], traces: Mapping[str, str]) -> None:
    """Count deliveries that ended, and log them; `deliveries_dead` logs the dead letters."""
    for one in ended:
        status = one.after.status.value
        instruments.DELIVERIES.add(outcome=status, tenant=one.locked.tenant_id)
        if one.died:
            continue
        line: dict[str, Any] = one.locked.ids
        line |= {"status": status, "attempts": one.after.attempts}
        if (trace_id := traces.get(one.delivery_id)) is not None:
            line["trace_id"] = trace_id
        log.info("A delivery ended.", kind=Kind.DELIVERY_ENDED, **line)


_LOCK = (
    select(
        *(_C.id, _C.event_id, _C.endpoint_id, _C.tenant_id, _C.event_type, _C.wakes, _C.lane),
        *(_C[name] for name in _ANSWER),
        *COLUMNS,
    )
    .where(_C.id.in_(bindparam("ids", expanding=True)))
    .order_by(_C.id)
    .with_for_update()
)
_LOCK_QUEUED = _LOCK.where(_C.place == Place.QUEUED.value).with_for_update(skip_locked=True)


def _bound(name: str) -> Any:
    return bindparam(f"b_{name}", type_=_C[name].type)


_STATE = {name: _bound(name) for name in sorted(WRITTEN)}
# A workflow that acts exists, even if the relay died before it could mark it as started. A row that
# was put back into the outbox also needs to be woken, and only the relay marks it then.
_SAVE = (
    update(_DELIVERIES)
    .where(_C.id == bindparam("b_id"))
    .values(
        **_STATE,
        started_at=case(
            (_C.wakes == 0, func.coalesce(_C.started_at, _bound("updated_at"))),
            else_=_C.started_at,
        ),
    )
)
# A delivery that moves up without ever having been in the outbox: it is new, as it was when it was
# inserted, so that its first attempt can be made in a batch.
_SAVE_AND_START = (
    update(_DELIVERIES)
    .where(_C.id == bindparam("b_id"))
    .values(**_STATE, started_at=null(), leased_until=null())
)
_SAVE_AND_WAKE = (
    update(_DELIVERIES)
    .where(_C.id == bindparam("b_id"))
    .values(
        **_STATE,
        started_at=null(),
        leased_until=null(),
        wakes=_C.wakes + 1,
        # a person's action stays urgent until the relay has woken the workflow
        urgency=case(
            (
                (_C.started_at.is_(None)) & (_C.urgency < bindparam("b_urgency")),
                _C.urgency,
            ),
            else_=bindparam("b_urgency"),
        ),
    )
)


def _values(change: Change, now: datetime) -> dict[str, Any]:
    life, resend, answer = change.after, change.after.resend, change.answer
    return {
        "b_id": change.delivery_id,
        "b_status": life.status.value,
        "b_reason": None if life.reason is None else life.reason.value,
        "b_attempts": life.attempts,
        "b_retries": life.retries,
        "b_next_attempt_at": life.next_attempt_at,
        "b_due_at": life.due_at,
        "b_recheck_at": life.recheck_at,
        "b_began_at": life.began_at,
        "b_excluded_seconds": life.excluded.total_seconds(),
        "b_waiting_since": life.waiting_since,
        "b_resend_asked_at": None if resend is None else resend.asked_at,
        "b_resend_yields": resend is not None and resend.yields_to_circuit,
        "b_resend_not_before": None if resend is None else resend.not_before,
        "b_released": life.released,
        "b_round": life.round,
        "b_last_error": life.last_error,
        "b_finished_at": life.finished_at,
        "b_batch_until": life.batch_until,
        "b_place": life.place and life.place.value,
        "b_updated_at": now,
        "b_last_attempt_at": answer and answer.attempt_at,
        "b_last_result": answer and answer.result.value,
        "b_last_status_code": answer and answer.status_code,
        "b_last_duration_ms": answer and answer.duration_ms,
    }

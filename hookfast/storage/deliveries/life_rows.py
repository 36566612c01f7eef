"""The rows of deliveries as lives: read, locked and saved. Only `lives` saves them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Select, Table, bindparam, case, func, null, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.answer import LastAnswer
from hookfast.deliveries.lane import Place
from hookfast.deliveries.life import Life, Phase, Resend
from hookfast.deliveries.outcome import DeliveryStatus, Reason, Result
from hookfast.storage.tables import Delivery

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
"""The columns with a delivery's state. After the row's insert, only `lives` writes them."""


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
class LifeChange:
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


async def lock_queued(
    connection: AsyncConnection, delivery_ids: Collection[str]
) -> dict[str, Locked]:
    """Lock those of these deliveries that are queued, and that no other transaction has locked."""
    return await _lock(connection, _LOCK_QUEUED, delivery_ids) if delivery_ids else {}


async def save(
    connection: AsyncConnection, changes: Collection[LifeChange], *, now: datetime
) -> None:
    """Save deliveries whose workflows act on the result by themselves."""
    if changes:
        await connection.execute(_SAVE, [_values(one, now) for one in changes])


async def save_and_start(
    connection: AsyncConnection, changes: Collection[LifeChange], *, now: datetime
) -> None:
    """Save deliveries that were never in the outbox, and put them there as new ones."""
    if changes:
        await connection.execute(_SAVE_AND_START, [_values(one, now) for one in changes])


async def save_and_wake(
    connection: AsyncConnection, changes: Iterable[tuple[LifeChange, int]], *, now: datetime
) -> None:
    """Save deliveries, and put them into the outbox with an urgency each."""
    values = [_values(one, now) | {"b_urgency": urgency} for one, urgency in changes]
    if values:
        await connection.execute(_SAVE_AND_WAKE, values)


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


def _values(change: LifeChange, now: datetime) -> dict[str, Any]:
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

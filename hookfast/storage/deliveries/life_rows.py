"""The rows of deliveries as lives: read, locked and saved. Only `lives` saves them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, NamedTuple

from sqlalchemy import Table, bindparam, case, func, null, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.answer import LastAnswer
from hookfast.deliveries.lane import Place
from hookfast.deliveries.life import Life, Phase, Resend
from hookfast.deliveries.outcome import DeliveryStatus, Reason, Result
from hookfast.storage.database.prepared import AnyOf, Prepared, Writes
from hookfast.storage.tables import Delivery

_DELIVERIES: Table = Delivery.__table__
_C = _DELIVERIES.c

_SAME = (
    *("attempts", "retries", "due_at", "recheck_at", "began_at", "waiting_since", "round"),
    *("last_error", "finished_at"),
)
"""The fields of a life that are columns as they are."""
_CONVERTED = (
    *("status", "reason", "excluded_seconds", "released", "place"),
    *("resend_asked_at", "resend_yields", "resend_not_before"),
)
_LEASE = "batch_until"
"""The field of a life that is the outbox's."""
_READ = (*_CONVERTED, *_SAME, _LEASE)
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
WRITTEN = frozenset({*_CONVERTED, *_SAME, *_ANSWER, "next_attempt_at", "updated_at"})
"""The columns with a delivery's state. After the row's insert, only `lives` writes them."""


class Locked(NamedTuple):
    """A delivery whose row is locked until the transaction ends. `wake_count` is how often it
    was put back into the outbox; at 0, it never requested a workflow of its own. `answer` belongs
    to its newest recorded attempt; it decides nothing, so it is not in the life. `lane` is its
    lane, None without one. `due_from` is when it was created, or the time it was scheduled for."""

    delivery_id: str
    event_id: str
    endpoint_id: str
    tenant_id: str
    event_type: str
    wake_count: int
    life: Life
    answer: LastAnswer | None = None
    lane: str | None = None
    due_from: datetime | None = None

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


class LifeChange(NamedTuple):
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
        return before.place is Place.QUEUED and before.round == 0 and locked.wake_count == 0

    @property
    def joined_line(self) -> bool:
        """Whether the delivery is queued in its lane since these facts."""
        queued = Place.QUEUED
        return self.after.place is queued and self.before.place is not queued


def life_of(row: Sequence[Any]) -> Life:
    """Return the life stored in a row that ends with `COLUMNS`."""
    state = row[-len(_READ) :]
    status, reason, excluded_seconds, released, place = state[:5]
    asked_at, yields, not_before = state[5 : len(_CONVERTED)]
    phase = _PHASES[status]
    if phase is Phase.WAITING and reason == Reason.ENDPOINT_LIMIT.value:
        phase = Phase.LIMITED
    return Life(
        phase=phase,
        reason=None if reason is None else Reason(reason),
        excluded=timedelta(seconds=excluded_seconds) if excluded_seconds else _NOTHING,
        resend=None if asked_at is None else Resend(asked_at, bool(yields), not_before),
        released=bool(released),
        place=None if place is None else Place(place),
        **dict(zip((*_SAME, _LEASE), state[len(_CONVERTED) :], strict=True)),
    )


async def lock(connection: AsyncConnection, delivery_ids: Collection[str]) -> dict[str, Locked]:
    """Lock these deliveries until the transaction ends. Those without a row are left out."""
    return await _lock(connection, _LOCK, delivery_ids)


async def lock_queued(
    connection: AsyncConnection, delivery_ids: Collection[str]
) -> dict[str, Locked]:
    """Lock those of these deliveries that are queued, and that no other transaction has locked."""
    return await _lock(connection, _LOCK_QUEUED, delivery_ids) if delivery_ids else {}


def save(writes: Writes, changes: Iterable[LifeChange], *, now: datetime) -> None:
    """Save deliveries whose workflows act on the result by themselves."""
    writes.add(_SAVE, [values_of(one, now=now) for one in changes])


def save_and_start(writes: Writes, changes: Iterable[LifeChange], *, now: datetime) -> None:
    """Save deliveries that were never in the outbox, and put them there as new ones."""
    writes.add(_SAVE_AND_START, [values_of(one, now=now) for one in changes])


def save_and_wake(
    writes: Writes, changes: Iterable[tuple[LifeChange, int]], *, now: datetime
) -> None:
    """Save deliveries, and put them into the outbox with an urgency each."""
    values = [values_of(one, now=now) | {"b_urgency": urgency} for one, urgency in changes]
    writes.add(_SAVE_AND_WAKE, values)


async def _lock(
    connection: AsyncConnection, statement: Prepared, delivery_ids: Collection[str]
) -> dict[str, Locked]:
    rows = await statement.rows(connection, {"ids": sorted(delivery_ids)})
    return {row[0]: _locked(row) for row in rows}


def _locked(row: Sequence[Any]) -> Locked:
    lane, created_at, deliver_at, last_attempt_at, last_result, status_code, duration_ms = row[6:13]
    answer = None
    if last_result is not None:
        answer = LastAnswer(last_attempt_at, Result(last_result), status_code, duration_ms)
    return Locked._make((*row[:6], life_of(row), answer, lane, deliver_at or created_at))


_WANTED = (
    select(
        *(_C.id, _C.event_id, _C.endpoint_id, _C.tenant_id, _C.event_type, _C.wake_count, _C.lane),
        *(_C.created_at, _C.deliver_at),
        *(_C[name] for name in _ANSWER),
        *COLUMNS,
    )
    .where(AnyOf(_C.id, "ids"))
    .order_by(_C.id)
)
_LOCK = Prepared(_WANTED.with_for_update())
_LOCK_QUEUED = Prepared(
    _WANTED.where(_C.place == Place.QUEUED.value).with_for_update(skip_locked=True)
)


def _bound(name: str) -> Any:
    return bindparam(f"b_{name}", type_=_C[name].type)


_STATE = {name: _bound(name) for name in sorted(WRITTEN)}
_SAVE_STATE = update(_DELIVERIES).where(_C.id == bindparam("b_id")).values(**_STATE)
# A workflow that acts exists, even if the relay died before it could mark it as started. A row that
# was put back into the outbox also needs to be woken, and only the relay marks it then.
_SAVE = Prepared(
    _SAVE_STATE.values(
        started_at=case(
            (_C.wake_count == 0, func.coalesce(_C.started_at, _bound("updated_at"))),
            else_=_C.started_at,
        )
    )
)
# A delivery that moves up without ever having been in the outbox: it is new, as it was when it was
# inserted, so that its first attempt can be made in a batch.
_SAVE_NEW = _SAVE_STATE.values(started_at=null(), leased_until=null())
_SAVE_AND_START = Prepared(_SAVE_NEW)
_SAVE_AND_WAKE = Prepared(
    _SAVE_NEW.values(
        wake_count=_C.wake_count + 1,
        # a person's action stays urgent until the relay has woken the workflow
        urgency=case(
            (_C.started_at.is_(None) & (_C.urgency < _bound("urgency")), _C.urgency),
            else_=_bound("urgency"),
        ),
    )
)
_BOUND = tuple((f"b_{name}", attrgetter(name)) for name in _SAME)


def values_of(change: LifeChange, *, now: datetime) -> dict[str, Any]:
    """Return the parameters that save a change: `b_` and the name of each column."""
    life, resend, answer = change.after, change.after.resend, change.answer
    values = {
        "b_id": change.delivery_id,
        "b_status": life.status.value,
        "b_reason": life.reason and life.reason.value,
        "b_excluded_seconds": life.excluded.total_seconds(),
        "b_released": life.released,
        "b_place": life.place and life.place.value,
        "b_resend_asked_at": resend and resend.asked_at,
        "b_resend_yields": resend is not None and resend.yields_to_circuit,
        "b_resend_not_before": resend and resend.not_before,
        "b_next_attempt_at": life.next_attempt_at,
        "b_updated_at": now,
        "b_last_attempt_at": answer and answer.attempt_at,
        "b_last_result": answer and answer.result.value,
        "b_last_status_code": answer and answer.status_code,
        "b_last_duration_ms": answer and answer.duration_ms,
    }
    for name, read in _BOUND:
        values[name] = read(life)
    return values

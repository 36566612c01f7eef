"""What the rows to copy count, each at its time to the millisecond: a copy counts the same, at
another time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final

from hookfast.deliveries.facts import Trigger
from hookfast.deliveries.figures import Owner, State, Tally, time_of_minute
from hookfast.deliveries.lane import Place
from hookfast.deliveries.outcome import DeliveryStatus, Result
from hookfast.ids import time_of

_MILLISECOND: Final = timedelta(milliseconds=1)


def of_delivery(number: int, owner: Owner, row: Any) -> Iterator[dict[str, Any]]:
    """Yield what a delivery's row counts, of the event with this number."""
    queued = row.place == Place.QUEUED
    state = State(DeliveryStatus(row.status), row.reason, row.finished_at, queued)
    tally, ends = Tally(), Tally()
    tally.delivery(owner, 0, None, state)
    for one in _counted(number, time_of(row.id), tally):
        if one["gauge"]:
            one["ms"] = 0 if row.finished_at is None else _ms(row.finished_at)
        yield one
    if row.finished_at is not None:
        first = row.status == DeliveryStatus.DELIVERED and not row.round
        due = row.deliver_at or row.created_at
        ends.ended(owner, state, took=max(timedelta(0), row.finished_at - due) if first else None)
        yield from _counted(number, row.finished_at, ends)


def of_attempt(number: int, owner: Owner, row: Any) -> Iterator[dict[str, Any]]:
    """Yield what an attempt's row counts."""
    tally = Tally()
    first = row.trigger == Trigger.FIRST
    tally.attempt(
        owner, row.started_at, Result(row.result), row.status_code, row.duration_ms, first=first
    )
    yield from _counted(number, row.started_at, tally)


def _counted(number: int, at: datetime | None, tally: Tally) -> Iterator[dict[str, Any]]:
    assert at is not None
    for key, counted in tally.numbers():
        row = key._asdict()
        del row["at"]
        yield row | {"original": number, "ms": _ms(at), "counted": counted}


def _ms(moment: datetime) -> int:
    return (moment - time_of_minute(0)) // _MILLISECOND

"""Figures: numbers that are counted with the record, never estimated. Pure.

A change of a delivery, or an attempt, is counted by `Tally`: as figures of the minute to which it
belongs, and as gauges of what waits now. The kinds of figures are

- `delivery:<status>`: the deliveries created in the minute, by their status now. A change of status
  takes one from the old and adds one to the new. Their sum is the number of accepted deliveries.
- `ended:<status>:<reason>`: the deliveries that ended in the minute. If one was delivered in its
  first round, its bucket has the time from when it was due.
- `attempt:<answer>:<turn>`: the attempts that began in the minute, by their answer (`success`, the
  class of another status code such as `5xx`, or what went wrong) and turn (`first`, `later`). If
  one was answered, its bucket has the time that it took.

The kinds of gauges are the statuses that wait, `queued`, and `dead:<reason>` and `gone:<reason>`,
which also have the event type and the hour in which the delivery ended.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, NamedTuple

from hookfast.deliveries.outcome import DeliveryStatus, Result

BASE: Final = 1.25
"""Each bucket of durations reaches to this multiple of the one before it."""
NO_BUCKET: Final = -1
"""The bucket of what has no duration."""
_LAST_BUCKET: Final = 120  # 13 years
_LOG_BASE: Final = math.log(BASE)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MINUTE: Final = timedelta(minutes=1)

WAITING: Final = (
    DeliveryStatus.PENDING,
    DeliveryStatus.RETRYING,
    DeliveryStatus.HELD,
    DeliveryStatus.PAUSED,
)
DEAD: Final = (DeliveryStatus.DEAD, DeliveryStatus.GONE)
QUEUED: Final = "queued"
FIRST, LATER = "first", "later"
_FIRST, _LATER = ":" + FIRST, ":" + LATER


class Key(NamedTuple):
    """What a number counts. `at` is the minute, counted from 1970 (UTC); of a gauge, the first
    minute of the hour in which a dead letter ended, or 0."""

    gauge: bool
    at: int
    tenant_id: str
    endpoint_id: str
    event_type: str
    kind: str
    bucket: int


class Owner(NamedTuple):
    """Whom a delivery or an attempt counts for."""

    tenant_id: str
    endpoint_id: str
    event_type: str


class State(NamedTuple):
    """What of a delivery's state is counted."""

    status: DeliveryStatus
    reason: str | None = None
    finished_at: datetime | None = None
    queued: bool = False


class Tally:
    """Counts what one transaction changes. It runs for every attempt, so kinds are joined with
    `+`: formatting a status costs five times as much."""

    def __init__(self) -> None:
        self._numbers: defaultdict[Key, int] = defaultdict(int)

    def numbers(self) -> Iterator[tuple[Key, int]]:
        """Yield what has changed, and by how much."""
        return ((key, number) for key, number in self._numbers.items() if number)

    def delivery(
        self, owner: Owner, created: int, before: State | None, after: State | None
    ) -> None:
        """Count a change of a delivery created in this minute. `before` is None for a new one,
        `after` for a dead letter whose row is deleted: that changes only its gauge."""
        if before is not None:
            if after is not None:
                self._add(owner, created, "delivery:" + before.status, -1)
            self.gauges(owner, before, -1)
        if after is not None:
            self._add(owner, created, "delivery:" + after.status, 1)
            self.gauges(owner, after, 1)

    def ended(self, owner: Owner, state: State, *, took: timedelta | None) -> None:
        """Count a delivery's end. `took`: the time from when it was due, if it was delivered in
        its first round."""
        assert state.finished_at is not None  # noqa: S101 - it has ended
        bucket = NO_BUCKET if took is None else bucket_of(took.total_seconds() * 1000)
        kind = "ended:" + state.status + ":" + (state.reason or "")
        self._add(owner, minute_of(state.finished_at), kind, 1, bucket)

    def attempt(
        self,
        owner: Owner,
        began: datetime,
        result: Result,
        status_code: int | None,
        duration_ms: float,
        *,
        first: bool,
    ) -> None:
        """Count an attempt."""
        answered = status_code is not None
        kind = "attempt:" + answer_of(result, status_code) + (_FIRST if first else _LATER)
        bucket = bucket_of(duration_ms) if answered else NO_BUCKET
        self._add(owner, minute_of(began), kind, 1, bucket)

    def gauges(self, owner: Owner, state: State, number: int) -> None:
        """Count this many deliveries as being in this state now, without their figures."""
        if state.status in WAITING:
            tenant_id, endpoint_id, _ = owner
            owned = (tenant_id, endpoint_id, "")
            self._numbers[Key(True, 0, *owned, state.status.value, NO_BUCKET)] += number
            if state.queued:
                self._numbers[Key(True, 0, *owned, QUEUED, NO_BUCKET)] += number
        elif state.status in DEAD:
            ended = 0 if state.finished_at is None else hour_of(minute_of(state.finished_at))
            kind = state.status + ":" + (state.reason or "")
            self._numbers[Key(True, ended, *owner, kind, NO_BUCKET)] += number

    def _add(
        self, owner: Owner, minute: int, kind: str, number: int, bucket: int = NO_BUCKET
    ) -> None:
        self._numbers[Key(False, minute, *owner, kind, bucket)] += number


@dataclass(slots=True)
class Numbers:
    """The figures of some time. `deliveries`: those created in it, by their status now. `ended`:
    those that ended in it, by status and reason. `attempts`: those that began in it, by answer and
    turn. `response_ms` and `delivery_ms` are how long answered attempts, and deliveries, took: the
    number of each bucket, for `percentile`."""

    deliveries: Counter[DeliveryStatus] = field(default_factory=Counter)
    ended: Counter[tuple[DeliveryStatus, str]] = field(default_factory=Counter)
    attempts: Counter[tuple[str, str]] = field(default_factory=Counter)
    response_ms: Counter[int] = field(default_factory=Counter)
    delivery_ms: Counter[int] = field(default_factory=Counter)

    def add(self, kind: str, bucket: int, number: int) -> None:
        """Add a figure."""
        counted, durations, key = _place_of(kind)
        getattr(self, counted)[key] += number
        if bucket != NO_BUCKET:
            getattr(self, durations)[bucket] += number

    def update(self, other: Numbers) -> None:
        """Add the figures of another time."""
        for name in self.__slots__:
            getattr(self, name).update(getattr(other, name))

    @property
    def accepted(self) -> int:
        """The number of deliveries created in this time."""
        return self.deliveries.total()

    @property
    def open(self) -> int:
        """The number of deliveries created in this time that have not ended."""
        return sum(self.deliveries[status] for status in WAITING)

    def ended_as(self, *statuses: DeliveryStatus) -> int:
        """Return how many deliveries ended in this time with one of these statuses."""
        return sum(number for (status, _), number in self.ended.items() if status in statuses)

    @property
    def attempted(self) -> int:
        """The number of attempts that began in this time."""
        return self.attempts.total()

    @property
    def succeeded(self) -> int:
        """The number of attempts that began in this time and got a 2xx."""
        return sum(self.attempts[Result.SUCCESS.value, turn] for turn in (FIRST, LATER))

    def by_answer(self) -> Counter[str]:
        """Return the number of attempts of each answer."""
        counted: Counter[str] = Counter()
        for (answer, _), number in self.attempts.items():
            counted[answer] += number
        return counted

    def by_reason(self) -> Counter[str]:
        """Return the number of dead letters that ended in this time, by reason."""
        counted: Counter[str] = Counter()
        for (status, reason), number in self.ended.items():
            if status in DEAD:
                counted[reason] += number
        return counted


@lru_cache(maxsize=256)  # a page reads thousands of figures, of some twenty kinds
def _place_of(kind: str) -> tuple[str, str, Any]:
    """Return where `Numbers` has the figures of a kind, and their durations, and its key there."""
    family, first, second = f"{kind}:".split(":")[:3]
    if family == "delivery":
        return "deliveries", "", DeliveryStatus(first)
    if family == "ended":
        return "ended", "delivery_ms", (DeliveryStatus(first), second)
    return "attempts", "response_ms", (first, second)


def answer_of(result: Result, status_code: int | None) -> str:
    """Return the answer by which an attempt is counted: `success`, `5xx`, `timeout`, …"""
    if result is Result.STATUS and status_code is not None:
        return f"{status_code // 100}xx"
    return result.value


def result_of(answer: str) -> Result:
    """Return the result of an answer by which attempts are counted."""
    return Result.STATUS if answer.endswith("xx") else Result(answer)


def minute_of(moment: datetime) -> int:
    """Return the minute that a moment is in, counted from 1970 (UTC)."""
    return (moment - _EPOCH) // _MINUTE


def minute_of_id(id_: str) -> int:
    """Return the minute in which the row of an id was created."""
    return int(id_[id_.index("_") + 1 :][:12], 16) // 60_000


def time_of_minute(minute: int) -> datetime:
    """Return when a minute begins."""
    return _EPOCH + minute * _MINUTE


def hour_of(minute: int) -> int:
    """Return the first minute of the hour that a minute is in."""
    return minute - minute % 60


def bucket_of(milliseconds: float) -> int:
    """Return the bucket of a duration: 0 up to 1 ms, then each reaches 1.25 times as far."""
    if milliseconds <= 1:
        return 0
    return min(_LAST_BUCKET, math.ceil(math.log(milliseconds) / _LOG_BASE - 1e-9))


def percentile(buckets: Mapping[int, int], share: float) -> float | None:
    """Return the duration within which this share (0 to 100) of them lies, in milliseconds; None
    if there are none. It is at most 12 % away from the exact value, above a millisecond."""
    left = sum(buckets.values()) * share / 100
    for bucket, number in sorted(buckets.items()):
        if number and left <= number:
            # the middle of the bucket, by ratio: no value in it is further away than by √1.25
            return BASE ** (bucket - 0.5) if bucket > 0 else 1.0
        left -= number
    return None

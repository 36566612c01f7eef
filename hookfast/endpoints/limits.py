"""How fast an endpoint with limits is sent to: may a request start, and if not, when to ask again.

Pure. `hookfast.storage.deliveries.permits` stores the `LimitState` of an endpoint and decides with
these functions under a lock.

Two things are kept apart. The *permission* to start is exact: it moves `next_slot_at`, under a
lock, by the spacing of the rate. The *hint* when to ask again is not: waiting deliveries are told
times one spacing apart (`promised_until` is the last), so that a thousand of them arrive as fast as
the endpoint takes them and not all at once. A hint that nobody comes for costs rate; one that was
wrong costs another question. Neither can cost exactness. When a limit is raised, those with a hint
are told by a job to ask at once (`JobKind.LIMITS`).

Fairness: a newcomer does not overtake those who wait, as long as they come back for their hints. A
delivery that comes back and finds its place taken goes to the end, so the order is roughly and not
exactly first in, first out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, TypeAlias

PATIENCE: Final = timedelta(milliseconds=250)
"""A start no further away than this is waited for in the process."""
EARLY: Final = timedelta(milliseconds=100)
"""How long before its slot a waiting delivery is told to come: it then waits for the slot, where
one that came late would leave it unused."""
HORIZON: Final = timedelta(hours=1)
"""No hint is further ahead. Beyond it, deliveries ask about once per HORIZON."""
MARGIN_SECONDS: Final = 0.02
"""A second's requests are spread over this much more than a second. A request starts a little after
its slot (a commit, a busy event loop), and one that is late followed by others that are not would
be one too many within a second."""

_LEAST_WAIT = timedelta(milliseconds=50)
_LEAST_STEP = timedelta(milliseconds=2)
_SILENCE = timedelta(seconds=1)  # more than a timer and an activity take to come back for a hint
_LONGEST_SPACING = timedelta(days=365)
_FIRST_GUESS_SECONDS = 0.1
_WEIGHT = 0.2  # of a new duration in the mean: about the last ten count


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """An endpoint's limits; None is no limit."""

    rate_per_second: float | None = None
    max_in_flight: int | None = None

    @property
    def any(self) -> bool:
        """Whether there is a limit at all."""
        return self.rate_per_second is not None or self.max_in_flight is not None

    @property
    def spacing(self) -> timedelta:
        """Between two starts: `1 / rate`, and MARGIN_SECONDS per second of the rate, rounded up to
        the microsecond. 10 per second: 102 ms; one per minute: 60.02 s; no rate: 0."""
        if self.rate_per_second is None:
            return timedelta(0)
        seconds = 1 / self.rate_per_second + MARGIN_SECONDS / max(self.rate_per_second, 1.0)
        if seconds >= _LONGEST_SPACING.total_seconds():
            return _LONGEST_SPACING
        # to the nanosecond first: 0.1 + 0.002 is a little more than 0.102 in binary
        return timedelta(microseconds=math.ceil(round(seconds * 1_000_000, 3)))


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitState:
    """What is known of an endpoint. `next_slot_at`: no request may start before (without a rate:
    when the last one started). `mean_seconds`: how long its requests take."""

    next_slot_at: datetime
    promised_until: datetime
    mean_seconds: float

    @classmethod
    def fresh(cls, now: datetime) -> LimitState:
        """The pace of an endpoint that was never asked for."""
        return cls(next_slot_at=now, promised_until=now, mean_seconds=_FIRST_GUESS_SECONDS)


@dataclass(frozen=True, slots=True)
class Go:
    """The request may start at `at`, which is at most PATIENCE away."""

    at: datetime


@dataclass(frozen=True, slots=True)
class Wait:
    """Ask again at `until`."""

    until: datetime


Answer: TypeAlias = "Go | Wait"


def decide(
    pace: LimitState, *, limits: Limits, in_flight: int, waited: bool, spread: float, now: datetime
) -> tuple[Answer, LimitState]:
    """Whether one more request may start, and the pace after that.

    `in_flight` counts the others' requests. `waited`: it comes because a Wait told it to. `spread`
    (0 to 1, differing between deliveries) scatters the hints that would lie beyond HORIZON.
    """
    slot = min(max(pace.next_slot_at, now), now + PATIENCE + limits.spacing)
    if pace.next_slot_at > slot:
        # No slot was ever given out further ahead: this one comes from a slower limit of before. It
        # is kept as it is now. If every question moved it on, nobody would ever come in time.
        pace = replace(pace, next_slot_at=slot)
    if limits.max_in_flight is not None and in_flight >= limits.max_in_flight:
        return _wait_for_room(pace, limits, spread=spread, now=now)
    if not waited and _nobody_comes(pace, limits, now):
        pace = replace(pace, promised_until=now)
    if waited and now + PATIENCE < slot <= now + PATIENCE + limits.spacing / 2:
        # The queue runs late, by less than a place: this one keeps its own.
        return Wait(slot - EARLY), pace
    overtakes = not waited and pace.promised_until > max(slot, now + PATIENCE)
    if overtakes or slot > now + PATIENCE:
        return _wait_for_slot(pace, limits, slot=slot, spread=spread, now=now)
    return Go(slot), replace(pace, next_slot_at=slot + limits.spacing)


def mean_after(mean_seconds: float, durations: Sequence[float]) -> float:
    """The mean (exponentially weighted, in seconds) once these durations are known, in order."""
    for seconds in durations:
        mean_seconds += _WEIGHT * (seconds - mean_seconds)
    return mean_seconds


def _nobody_comes(pace: LimitState, limits: Limits, now: datetime) -> bool:
    """Whether a start that was free went unused for so long that those who were promised one cannot
    be coming any more: their deliveries were cancelled, or held, or made by someone else."""
    silence = _SILENCE
    if limits.max_in_flight is not None:  # between two starts lies the end of a request
        silence += timedelta(seconds=2 * pace.mean_seconds)
    return now - pace.next_slot_at > silence


def _wait_for_slot(
    pace: LimitState, limits: Limits, *, slot: datetime, spread: float, now: datetime
) -> tuple[Wait, LimitState]:
    promise = max(pace.promised_until, slot)
    if promise >= now + HORIZON:
        return _wait_far(pace, spread=spread, now=now)
    until = max(promise - EARLY, now + _LEAST_WAIT)
    return Wait(until), replace(pace, promised_until=promise + _step(pace, limits))


def _wait_for_room(
    pace: LimitState, limits: Limits, *, spread: float, now: datetime
) -> tuple[Wait, LimitState]:
    promise = max(pace.promised_until, now) + _step(pace, limits)
    if promise >= now + HORIZON:
        return _wait_far(pace, spread=spread, now=now)
    # The longer nothing has started, the longer it may still take (the receiver hangs): asking less
    # and less often keeps one slow request from costing hundreds of questions.
    stalled = max(now - pace.next_slot_at, timedelta(0))
    until = max(promise, now + _LEAST_WAIT, now + min(stalled / 4, HORIZON))
    return Wait(until), replace(pace, promised_until=promise)


def _wait_far(pace: LimitState, *, spread: float, now: datetime) -> tuple[Wait, LimitState]:
    until = now + HORIZON * (0.5 + spread / 2)
    return Wait(until), replace(pace, promised_until=now + HORIZON)


def _step(pace: LimitState, limits: Limits) -> timedelta:
    """Between two hints. With `max_in_flight`, one request ends per `mean / max` on average; hints
    come closer than that, most of all where one request at a time leaves the endpoint idle until
    the next question: 0.7 of it, and at most a quarter of the mean."""
    if limits.max_in_flight is None:
        return limits.spacing
    seconds = pace.mean_seconds * min(0.7 / limits.max_in_flight, 0.25)
    return max(limits.spacing, _LEAST_STEP, timedelta(seconds=seconds))

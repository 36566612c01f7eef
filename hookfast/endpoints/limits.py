"""The limits of an endpoint: whether a request may start now, and if not, when to check again.

Pure. `hookfast.storage.deliveries.permits` stores the `LimitState` of an endpoint and decides with
these functions under a lock.

Two things are kept apart. The *permission* to start is exact: under the lock, it moves
`next_slot_at` by the spacing of the rate. The *hint* when to check again is not: waiting deliveries
get times one spacing apart (`promised_until` is the last), so that a thousand of them come as fast
as the endpoint takes them, and not all at once. An unused hint costs rate, and a wrong one costs
another check, but neither makes the limit inexact. When a limit is raised, a job lets the waiting
deliveries check at once (`JobKind.LIMITS`).

Fairness: a new delivery does not overtake waiting ones that come back at their hints. A delivery
that comes back and finds its place taken goes to the end, so the order is only roughly first in,
first out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, TypeAlias

PATIENCE: Final = timedelta(milliseconds=250)
"""A start that is no further away than this is waited for in the process."""
EARLY: Final = timedelta(milliseconds=100)
"""How long before its slot a waiting delivery comes back. It then waits for the slot; coming late
would leave the slot unused."""
HORIZON: Final = timedelta(hours=1)
"""No hint is further ahead. Beyond it, deliveries check about once per HORIZON."""
MARGIN_SECONDS: Final = 0.02
"""A second's requests are spread over this much more than a second. A request starts a little after
its slot (a commit, a busy event loop), and one that is late followed by others that are not would
be one too many within a second."""

_LEAST_WAIT = timedelta(milliseconds=50)
_LEAST_STEP = timedelta(milliseconds=2)
_LAPSED_AFTER = timedelta(seconds=1)  # more than a timer and an activity take to follow a hint
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
        """Whether there is any limit."""
        return self.rate_per_second is not None or self.max_in_flight is not None

    @property
    def spacing(self) -> timedelta:
        """The time between two starts: `1 / rate`, plus MARGIN_SECONDS per second of the rate,
        rounded up to the microsecond. 10 a second: 102 ms; one a minute: 60.02 s; no rate: 0."""
        if self.rate_per_second is None:
            return timedelta(0)
        seconds = 1 / self.rate_per_second + MARGIN_SECONDS / max(self.rate_per_second, 1.0)
        if seconds >= _LONGEST_SPACING.total_seconds():
            return _LONGEST_SPACING
        # to the nanosecond first: 0.1 + 0.002 is a little more than 0.102 in binary
        return timedelta(microseconds=math.ceil(round(seconds * 1_000_000, 3)))


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitState:
    """The stored state of an endpoint's limits. `next_slot_at`: no request may start before it
    (without a rate: when the last one started). `promised_until`: the last hint that was given out.
    `mean_seconds`: how long a request takes on average."""

    next_slot_at: datetime
    promised_until: datetime
    mean_seconds: float

    @classmethod
    def initial(cls, now: datetime) -> LimitState:
        """Return the state of an endpoint whose limits were never used."""
        return cls(next_slot_at=now, promised_until=now, mean_seconds=_FIRST_GUESS_SECONDS)


@dataclass(frozen=True, slots=True)
class Granted:
    """The request may start at `at`, which is at most PATIENCE away."""

    at: datetime


@dataclass(frozen=True, slots=True)
class Deferred:
    """Check again at `until`."""

    until: datetime


LimitDecision: TypeAlias = "Granted | Deferred"


def decide(
    state: LimitState, *, limits: Limits, in_flight: int, waited: bool, spread: float, now: datetime
) -> tuple[LimitDecision, LimitState]:
    """Decide whether one more request may start. Return the decision and the state after it.

    `in_flight` counts the other requests. `waited`: the delivery comes back after a `Deferred`.
    `spread` (0 to 1, different for each delivery) scatters hints that would lie beyond HORIZON.
    """
    slot = min(max(state.next_slot_at, now), now + PATIENCE + limits.spacing)
    if state.next_slot_at > slot:
        # No slot is ever given out further ahead: this one comes from an earlier, slower limit.
        # Store the nearer slot. If every check moved it on, no delivery would ever come in time.
        state = replace(state, next_slot_at=slot)
    if limits.max_in_flight is not None and in_flight >= limits.max_in_flight:
        return _wait_for_room(state, limits, spread=spread, now=now)
    if not waited and _promises_lapsed(state, limits, now):
        state = replace(state, promised_until=now)
    if waited and now + PATIENCE < slot <= now + PATIENCE + limits.spacing / 2:
        # The queue is late by less than one place: the delivery keeps its place.
        return Deferred(slot - EARLY), state
    overtakes = not waited and state.promised_until > max(slot, now + PATIENCE)
    if overtakes or slot > now + PATIENCE:
        return _wait_for_slot(state, limits, slot=slot, spread=spread, now=now)
    return Granted(slot), replace(state, next_slot_at=slot + limits.spacing)


def mean_after(mean_seconds: float, durations: Sequence[float]) -> float:
    """Return the exponentially weighted mean, in seconds, after these durations in order."""
    for seconds in durations:
        mean_seconds += _WEIGHT * (seconds - mean_seconds)
    return mean_seconds


def _promises_lapsed(state: LimitState, limits: Limits, now: datetime) -> bool:
    """Whether a free slot went unused for so long that the deliveries with a hint will not come:
    they were cancelled or held, or attempted by another worker."""
    silence = _LAPSED_AFTER
    if limits.max_in_flight is not None:  # a request has to end between two starts
        silence += timedelta(seconds=2 * state.mean_seconds)
    return now - state.next_slot_at > silence


def _wait_for_slot(
    state: LimitState, limits: Limits, *, slot: datetime, spread: float, now: datetime
) -> tuple[Deferred, LimitState]:
    promise = max(state.promised_until, slot)
    if promise >= now + HORIZON:
        return _wait_beyond_horizon(state, spread=spread, now=now)
    until = max(promise - EARLY, now + _LEAST_WAIT)
    return Deferred(until), replace(state, promised_until=promise + _hint_spacing(state, limits))


def _wait_for_room(
    state: LimitState, limits: Limits, *, spread: float, now: datetime
) -> tuple[Deferred, LimitState]:
    promise = max(state.promised_until, now) + _hint_spacing(state, limits)
    if promise >= now + HORIZON:
        return _wait_beyond_horizon(state, spread=spread, now=now)
    # The longer nothing has started, the longer it may still take (the receiver hangs). Checking
    # less and less often keeps one slow request from costing hundreds of checks.
    stalled = max(now - state.next_slot_at, timedelta(0))
    until = max(promise, now + _LEAST_WAIT, now + min(stalled / 4, HORIZON))
    return Deferred(until), replace(state, promised_until=promise)


def _wait_beyond_horizon(
    state: LimitState, *, spread: float, now: datetime
) -> tuple[Deferred, LimitState]:
    until = now + HORIZON * (0.5 + spread / 2)
    return Deferred(until), replace(state, promised_until=now + HORIZON)


def _hint_spacing(state: LimitState, limits: Limits) -> timedelta:
    """Return the time between two hints. With `max_in_flight`, one request ends per `mean / max` on
    average. Hints are closer together, because the endpoint is idle from the end of a request to
    the next check: 0.7 of that time, and at most a quarter of the mean."""
    if limits.max_in_flight is None:
        return limits.spacing
    seconds = state.mean_seconds * min(0.7 / limits.max_in_flight, 0.25)
    return max(limits.spacing, _LEAST_STEP, timedelta(seconds=seconds))

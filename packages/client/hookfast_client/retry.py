"""Decides whether and when a call is sent again, and how long each attempt may take.

A call is sent again after a failed connection, an attempt that took too long, and the statuses
408, 429, 502, 503 and 504. If Hookfast may have carried it out already, it is sent again only if it
is repeatable: GET, PUT, PATCH and DELETE, everything with an idempotency key, and actions such as
`pause`, which have no effect the second time.

The pauses double from 0.5 s to 10 s: 0.5, 1, 2, 4, 8, 10, 10. Each is shortened by up to half at
random, so that clients that lost the same service do not return all at once. A longer `Retry-After`
counts instead.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from hookfast_client.call import Call
from hookfast_client.errors import ApiError, ConnectionFailed, HookfastError

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a call, in seconds: `timeout` for all of it with its retries, `attempt_timeout` for
    each request. `max_retries`: how often it is sent again."""

    timeout: float = 60.0
    attempt_timeout: float = 30.0
    max_retries: int = 8

    def __post_init__(self) -> None:
        if not (self.timeout > 0 and self.attempt_timeout > 0 and self.max_retries >= 0):
            raise ValueError("timeouts must be positive, and max_retries not negative")


DEFAULT_LIMITS = Limits()


class Attempts:
    """The attempts of one call."""

    def __init__(
        self,
        call: Call,
        limits: Limits,
        *,
        clock: Callable[[], float] = time.monotonic,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._call = call
        self._limits = limits
        self._clock = clock
        self._uniform = uniform
        self._ends = clock() + limits.timeout
        self._retries = 0
        self.may_be_done = False
        """Whether an attempt that failed may have been carried out."""

    def seconds(self) -> float:
        """Return how long the next attempt may take."""
        return max(min(self._limits.attempt_timeout, self._ends - self._clock()), 0.001)

    def pause_after(self, error: HookfastError) -> float | None:
        """Return the seconds to wait before the call is sent again; None if it is not: `error` is
        its result."""
        self.may_be_done = self.may_be_done or error.outcome_unknown
        if self._retries >= self._limits.max_retries or not self._may_repeat(error):
            return None
        pause = backoff(self._retries, uniform=self._uniform)
        if isinstance(error, ApiError) and error.retry_after is not None:
            pause = max(pause, error.retry_after)
        if self._clock() + pause >= self._ends:
            return None
        self._retries += 1
        return pause

    def _may_repeat(self, error: HookfastError) -> bool:
        temporary = isinstance(error, ConnectionFailed) or (
            isinstance(error, ApiError) and error.is_temporary
        )
        return temporary and (self._call.repeatable or not error.outcome_unknown)


def backoff(retries: int, *, uniform: Callable[[float, float], float] = random.uniform) -> float:
    """Return the pause in seconds after so many retries."""
    longest: float = min(FIRST_PAUSE * 2 ** min(retries, 10), LONGEST_PAUSE)
    return longest * uniform(0.5, 1.0)

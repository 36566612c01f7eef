"""Retry plans: when a failed delivery is sent again, and when it is given up. Pure.

A plan is data (`RetryPlan`); `decide` applies it to one outcome. The delay before retry *n*
(counted from 1) is

    delays[n-1] * (1 + jitter),   jitter uniform in [jitter_low, jitter_high]

so `hourly` (±10 %) waits 54–66 s, 108–132 s, 216–264 s, … and from the seventh on 54–66 min.
A valid `Retry-After` raises the delay, to 24 h at most, and never shortens it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, assert_never

from hookfast.deliveries.outcome import Outcome, Result
from hookfast.errors import InvalidInput, join_pointer

MAX_DELAY = 24 * 3600.0
"""Longest single delay, in seconds; also the cap on `Retry-After`."""
MAX_DELAYS = 100
"""Most delays of a custom plan."""
MAX_TOTAL = 14 * 24 * 3600.0
"""Longest sum of a custom plan's delays, in seconds."""


class RetryOn(StrEnum):
    """Which failures are retried. Network failures (DNS, TLS, …) always are, 410 and 508 never."""

    ALL = "all"  # every other failure
    TRANSIENT = "transient"  # 5xx, 408 and 429
    SERVER = "server"  # 5xx and 429


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPlan:
    """The delays between attempts and an attempt's timeout, in seconds; jitter as fractions."""

    name: str
    delays: tuple[float, ...]
    jitter_low: float
    jitter_high: float
    timeout: float
    retry_on: RetryOn

    @property
    def length(self) -> float:
        """The longest time that the plan can take by itself, in seconds: every delay with its
        highest jitter, every attempt with a timeout. Only `Retry-After` can exceed it."""
        return sum(self.delays) * (1 + self.jitter_high) + (len(self.delays) + 1) * self.timeout


_PRESETS = (
    RetryPlan(
        name="hourly",
        delays=(60, 120, 240, 480, 960, 1920, *(3600,) * 72),
        jitter_low=-0.1,
        jitter_high=0.1,
        timeout=5,
        retry_on=RetryOn.ALL,
    ),
    RetryPlan(
        name="stepped",
        delays=(30, 120, 480, 1800, 7200, 28800),
        jitter_low=-0.2,
        jitter_high=0.2,
        timeout=10,
        retry_on=RetryOn.TRANSIENT,
    ),
    RetryPlan(
        name="capped",
        delays=(1, 2, 4, 8, 16),
        jitter_low=0.0,
        jitter_high=0.3,
        timeout=30,
        retry_on=RetryOn.SERVER,
    ),
    RetryPlan(
        name="standard",
        delays=(5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400),
        jitter_low=-0.2,
        jitter_high=0.2,
        timeout=15,
        retry_on=RetryOn.ALL,
    ),
)
PRESETS: Mapping[str, RetryPlan] = {plan.name: plan for plan in _PRESETS}
DEFAULT_PLAN = "hourly"

PlanSpec = str | dict[str, Any]
"""A plan as it is stored and sent: a preset's name, or
`{"delays_seconds": […], "jitter": 0.1, "retry_on": "all" | "transient"}`."""

_CUSTOM_TIMEOUT = 5.0


def parse_plan(spec: object, *, pointer: str = "/retry_plan") -> RetryPlan:
    """Return the plan of a spec. Raises InvalidInput, with pointers below `pointer`, if the spec is
    invalid."""
    if isinstance(spec, str):
        if spec not in PRESETS:
            raise InvalidInput.at(
                pointer,
                f"unknown retry plan; use one of {', '.join(PRESETS)}, or an object",
                code="invalid_retry_plan",
            )
        return PRESETS[spec]
    if not isinstance(spec, dict):
        raise _invalid(pointer, "a retry plan is a preset's name or an object")
    unknown = sorted(set(spec) - {"delays_seconds", "jitter", "retry_on"})
    if unknown:
        raise _invalid(
            join_pointer(pointer, unknown[0]),
            "a retry plan has delays_seconds, jitter and retry_on only",
        )
    delays = _delays(spec.get("delays_seconds"), f"{pointer}/delays_seconds")
    jitter = _number(spec.get("jitter", 0.1), f"{pointer}/jitter", low=0, high=1)
    try:
        retry_on = RetryOn(spec.get("retry_on", RetryOn.ALL))
    except ValueError:
        retry_on = RetryOn.SERVER
    if retry_on is RetryOn.SERVER:  # a preset's rule, not offered for custom plans
        raise _invalid(f"{pointer}/retry_on", "retry_on is 'all' or 'transient'")
    return RetryPlan(
        name="custom",
        delays=delays,
        jitter_low=-jitter,
        jitter_high=jitter,
        timeout=_CUSTOM_TIMEOUT,
        retry_on=retry_on,
    )


class Next(StrEnum):
    """What follows an attempt."""

    DELIVERED = "delivered"
    RETRY = "retry"
    GONE = "gone"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Decision:
    """What follows an attempt. `delay` (seconds) is set with RETRY, `reason` (a stable word) with
    GONE and DEAD."""

    next: Next
    delay: float = 0.0
    reason: str | None = None


def decide(
    plan: RetryPlan, outcome: Outcome, *, retries_used: int, elapsed: float, random: float
) -> Decision:
    """Decide what follows an attempt with this outcome.

    `retries_used` counts the automatic retries already made; `elapsed` is the time since the first
    attempt in seconds, without the time it was paused, held or limited; `random` in [0, 1) places
    the jitter.
    """
    if outcome.succeeded:
        return Decision(Next.DELIVERED)
    if outcome.gone:
        return Decision(Next.GONE, reason="gone")
    if outcome.looped:
        return Decision(Next.DEAD, reason="loop_detected")
    if not _worth_retrying(plan.retry_on, outcome):
        return Decision(Next.DEAD, reason="not_retryable")
    if retries_used >= len(plan.delays):
        return Decision(Next.DEAD, reason="retries_exhausted")
    if elapsed >= plan.length:
        return Decision(Next.DEAD, reason="plan_expired")
    return Decision(
        Next.RETRY, delay=next_delay(plan, outcome, retries_used=retries_used, random=random)
    )


def next_delay(plan: RetryPlan, outcome: Outcome, *, retries_used: int, random: float) -> float:
    """Return the seconds to wait before retry `retries_used + 1`."""
    jitter = plan.jitter_low + (plan.jitter_high - plan.jitter_low) * random
    planned = plan.delays[retries_used] * (1 + jitter)
    retry_after = outcome.retry_after_seconds
    if retry_after is None or not math.isfinite(retry_after):
        return planned
    return max(planned, min(retry_after, MAX_DELAY))


def _worth_retrying(rule: RetryOn, outcome: Outcome) -> bool:
    if outcome.result is not Result.STATUS:
        return True
    status = outcome.status_code or 0
    match rule:
        case RetryOn.ALL:
            return True
        case RetryOn.TRANSIENT:
            return status >= 500 or status in (408, 429)
        case RetryOn.SERVER:
            return status >= 500 or status == 429
        case _:
            assert_never(rule)


def _delays(value: object, pointer: str) -> tuple[float, ...]:
    if not isinstance(value, list):
        raise _invalid(pointer, "delays_seconds is a list of seconds, e.g. [1, 5, 30]")
    if len(value) > MAX_DELAYS:
        raise _invalid(pointer, f"a retry plan has at most {MAX_DELAYS} delays")
    delays = tuple(
        _number(item, f"{pointer}/{index}", low=0, high=MAX_DELAY)
        for index, item in enumerate(value)
    )
    if sum(delays) > MAX_TOTAL:
        raise _invalid(pointer, "the delays of a retry plan add up to at most 14 days")
    return delays


def _number(value: object, pointer: str, *, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise _invalid(pointer, f"must be a number from {low:g} to {high:g}")
    return float(value)


def _invalid(pointer: str, detail: str) -> InvalidInput:
    return InvalidInput.at(pointer, detail, code="invalid_retry_plan")

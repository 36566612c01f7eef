"""Retry plans: each preset's delays, the jitter, Retry-After, and what ends a delivery."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookfast.deliveries.outcome import Outcome, Result
from hookfast.deliveries.retry_plan import (
    DEFAULT_PLAN,
    MAX_DELAY,
    PRESETS,
    Decision,
    Next,
    RetryOn,
    RetryPlan,
    decide,
    next_delay,
    parse_plan,
)
from hookfast.errors import InvalidInput

HOUR = 3600

NETWORK_FAILURES = [result for result in Result if result not in (Result.SUCCESS, Result.STATUS)]


def status(code: int, retry_after: float | None = None) -> Outcome:
    return Outcome(
        result=Result.SUCCESS if 200 <= code <= 299 else Result.STATUS,
        duration_ms=1.0,
        status_code=code,
        retry_after_seconds=retry_after,
    )


def failure(result: Result) -> Outcome:
    return Outcome(result=result, duration_ms=1.0, error="…")


def first(plan: RetryPlan, outcome: Outcome) -> Decision:
    """Return what follows the first attempt, in the middle of the jitter."""
    return decide(plan, outcome, retries_used=0, elapsed=0, random=0.5)


@pytest.mark.parametrize(
    ("name", "delays", "total"),
    [
        # 1+2+4+8+16+32 min = 63 min, then 72 h: 3,780 s + 259,200 s = 73 h 3 min
        ("hourly", [60, 120, 240, 480, 960, 1920] + [HOUR] * 72, 73 * HOUR + 3 * 60),
        # 30 + 120 + 480 + 1,800 + 7,200 + 28,800 s = 10 h 40 min 30 s
        ("stepped", [30, 120, 480, 1800, 2 * HOUR, 8 * HOUR], 38_430),
        # 1 + 2 + 4 + 8 + 16 = 2^5 - 1 s; the cap of 5 min would come with the ninth
        ("capped", [1, 2, 4, 8, 16], 31),
        # 5 s + 5 min + 30 min + (2+5+10+14+20+24 = 75) h = 5 + 300 + 1,800 + 270,000 s
        (
            "standard",
            [5, 300, 1800, *(hours * HOUR for hours in (2, 5, 10, 14, 20, 24))],
            272_105,
        ),
    ],
)
def test_preset_waits_as_documented(name: str, delays: list[int], total: int) -> None:
    plan = PRESETS[name]
    assert list(plan.delays) == delays
    assert sum(plan.delays) == total


@pytest.mark.parametrize(
    ("name", "jitter_low", "jitter_high", "timeout", "retry_on"),
    [
        ("hourly", -0.1, 0.1, 5, RetryOn.ALL),
        ("stepped", -0.2, 0.2, 10, RetryOn.TRANSIENT),
        ("capped", 0.0, 0.3, 30, RetryOn.SERVER),
        ("standard", -0.2, 0.2, 15, RetryOn.ALL),
    ],
)
def test_preset_has_the_documented_jitter_timeout_and_rule(
    name: str, jitter_low: float, jitter_high: float, timeout: float, retry_on: RetryOn
) -> None:
    plan = PRESETS[name]
    assert (plan.jitter_low, plan.jitter_high) == (jitter_low, jitter_high)
    assert (plan.timeout, plan.retry_on) == (timeout, retry_on)


def test_there_are_no_other_presets() -> None:
    assert list(PRESETS) == ["hourly", "stepped", "capped", "standard"]
    assert DEFAULT_PLAN == "hourly"
    assert len(PRESETS[DEFAULT_PLAN].delays) == 78


@pytest.mark.parametrize(
    ("name", "length"),
    [
        ("hourly", 262_980 * 1.1 + 79 * 5),  # 78 delays, 79 attempts
        ("stepped", 38_430 * 1.2 + 7 * 10),
        ("capped", 31 * 1.3 + 6 * 30),
        ("standard", 272_105 * 1.2 + 10 * 15),
    ],
)
def test_length_of_a_plan_includes_every_jitter_and_timeout(name: str, length: float) -> None:
    assert PRESETS[name].length == pytest.approx(length)


plans = st.sampled_from(list(PRESETS.values()))
fractions = st.floats(0, 1, exclude_max=True)


@given(plan=plans, random=fractions, data=st.data())
def test_jitter_stays_within_its_bounds(
    plan: RetryPlan, random: float, data: st.DataObject
) -> None:
    used = data.draw(st.integers(0, len(plan.delays) - 1))
    delay = next_delay(plan, status(500), retries_used=used, random=random)
    low, high = 1 + plan.jitter_low, 1 + plan.jitter_high
    assert plan.delays[used] * low <= delay <= plan.delays[used] * high


@pytest.mark.parametrize(
    ("name", "lowest", "middle", "highest"),
    [
        ("hourly", 54, 60, 66),  # 60 s ± 10 %
        ("stepped", 24, 30, 36),  # 30 s ± 20 %
        ("capped", 1, 1.15, 1.3),  # 1 s + 0–30 %
        ("standard", 4, 5, 6),  # 5 s ± 20 %
    ],
)
def test_jitter_spreads_the_first_retry_over_its_whole_range(
    name: str, lowest: float, middle: float, highest: float
) -> None:
    delays = [
        next_delay(PRESETS[name], status(500), retries_used=0, random=random)
        for random in (0.0, 0.5, 1.0)
    ]
    assert delays == pytest.approx([lowest, middle, highest])


@pytest.mark.parametrize(
    ("wished", "expected"),
    [
        (None, 60),
        (0, 60),  # never shortens
        (59.9, 60),
        (61, 61),
        (7200, 7200),
        (MAX_DELAY, MAX_DELAY),
        (MAX_DELAY + 1, MAX_DELAY),
        (1e300, MAX_DELAY),
        (-5, 60),
        (math.nan, 60),
        (math.inf, 60),
        (-math.inf, 60),
    ],
)
def test_retry_after_raises_the_delay_to_a_day_at_most(
    wished: float | None, expected: float
) -> None:
    outcome = status(503, retry_after=wished)
    assert next_delay(PRESETS["hourly"], outcome, retries_used=0, random=0.5) == expected


def test_retry_after_does_not_shorten_a_delay_over_a_day() -> None:
    # 24 h + 20 %
    delay = next_delay(PRESETS["standard"], status(429, 10 * MAX_DELAY), retries_used=8, random=1)
    assert delay == pytest.approx(1.2 * MAX_DELAY)


@given(plan=plans, random=fractions, wished=st.floats() | st.none())
def test_delay_is_always_finite_and_bounded(
    plan: RetryPlan, random: float, wished: float | None
) -> None:
    delay = next_delay(plan, status(503, wished), retries_used=0, random=random)
    planned = next_delay(plan, status(503), retries_used=0, random=random)
    assert planned <= delay <= max(planned, MAX_DELAY)


@pytest.mark.parametrize(
    ("name", "retried", "final"),
    [
        ("hourly", [301, 304, 400, 401, 404, 408, 409, 422, 429, 451, 500, 503, 599], []),
        ("stepped", [408, 429, 500, 502, 503, 504, 599], [301, 304, 400, 401, 404, 409, 422, 451]),
        ("capped", [429, 500, 502, 503, 504, 599], [301, 304, 400, 401, 404, 408, 409, 422, 451]),
        ("standard", [301, 304, 400, 401, 404, 408, 409, 422, 429, 451, 500, 503, 599], []),
    ],
)
def test_rule_decides_which_statuses_are_retried(
    name: str, retried: list[int], final: list[int]
) -> None:
    plan = PRESETS[name]
    for code in retried:
        assert first(plan, status(code)).next is Next.RETRY
    for code in final:
        assert first(plan, status(code)) == Decision(Next.DEAD, reason="not_retryable")


@pytest.mark.parametrize("plan", PRESETS.values(), ids=list(PRESETS))
@pytest.mark.parametrize("result", NETWORK_FAILURES)
def test_every_plan_retries_network_failures(plan: RetryPlan, result: Result) -> None:
    assert first(plan, failure(result)).next is Next.RETRY


@pytest.mark.parametrize("plan", PRESETS.values(), ids=list(PRESETS))
@pytest.mark.parametrize("code", [200, 201, 202, 204, 299])
def test_every_2xx_is_delivered(plan: RetryPlan, code: int) -> None:
    assert first(plan, status(code)) == Decision(Next.DELIVERED)


@pytest.mark.parametrize("plan", PRESETS.values(), ids=list(PRESETS))
def test_410_ends_the_delivery_in_every_plan(plan: RetryPlan) -> None:
    assert first(plan, status(410)) == Decision(Next.GONE, reason="gone")


@pytest.mark.parametrize("plan", PRESETS.values(), ids=list(PRESETS))
def test_508_is_not_retried_in_any_plan(plan: RetryPlan) -> None:
    assert first(plan, status(508)) == Decision(Next.DEAD, reason="loop_detected")


@pytest.mark.parametrize(
    ("outcome", "used", "elapsed", "expected"),
    [
        # success and 410 count however late they come
        (status(200), 6, 1e9, Decision(Next.DELIVERED)),
        (status(410), 6, 1e9, Decision(Next.GONE, reason="gone")),
        # then the rule, then the retries, then the time
        (status(404), 6, 1e9, Decision(Next.DEAD, reason="not_retryable")),
        (status(500), 6, 1e9, Decision(Next.DEAD, reason="retries_exhausted")),
        (status(500), 6, 0, Decision(Next.DEAD, reason="retries_exhausted")),
        (status(500), 5, 1e9, Decision(Next.DEAD, reason="plan_expired")),
        # length: 38,430 s * 1.2 + 7 * 10 s = 46,186 s
        (status(500), 5, 46_186, Decision(Next.DEAD, reason="plan_expired")),
        (status(500), 5, 46_185, Decision(Next.RETRY, delay=28_800)),
    ],
)
def test_reasons_to_end_apply_in_order(
    outcome: Outcome, used: int, elapsed: float, expected: Decision
) -> None:
    plan = PRESETS["stepped"]
    assert decide(plan, outcome, retries_used=used, elapsed=elapsed, random=0.5) == expected


@given(plan=plans, random=fractions)
def test_slowest_receiver_still_gets_every_retry(plan: RetryPlan, random: float) -> None:
    elapsed, attempts = plan.timeout, 1
    while True:
        decision = decide(
            plan,
            failure(Result.TIMEOUT),
            retries_used=attempts - 1,
            elapsed=elapsed,
            random=random,
        )
        if decision.next is not Next.RETRY:
            break
        elapsed += decision.delay + plan.timeout
        attempts += 1
    assert decision == Decision(Next.DEAD, reason="retries_exhausted")
    assert attempts == len(plan.delays) + 1


@pytest.mark.parametrize("name", list(PRESETS))
def test_name_of_a_preset_is_parsed(name: str) -> None:
    assert parse_plan(name) is PRESETS[name]


def test_custom_plan_is_parsed() -> None:
    assert parse_plan(
        {"delays_seconds": [1, 5, 30.5], "jitter": 0.25, "retry_on": "transient"}
    ) == RetryPlan(
        name="custom",
        delays=(1.0, 5.0, 30.5),
        jitter_low=-0.25,
        jitter_high=0.25,
        timeout=5.0,
        retry_on=RetryOn.TRANSIENT,
    )


def test_custom_plan_defaults_to_ten_percent_and_all_failures() -> None:
    plan = parse_plan({"delays_seconds": [1]})
    assert (plan.jitter_low, plan.jitter_high, plan.retry_on) == (-0.1, 0.1, RetryOn.ALL)


@pytest.mark.parametrize(
    "delays",
    [
        [],  # one attempt, no retry
        [0],
        [86_400],
        [1] * 100,
        [86_400] * 14,  # 14 days together
    ],
)
def test_custom_plan_may_reach_its_limits(delays: list[int]) -> None:
    assert parse_plan({"delays_seconds": delays}).delays == tuple(delays)


@pytest.mark.parametrize(
    ("spec", "pointer"),
    [
        ("daily", "/retry_plan"),
        ("", "/retry_plan"),
        (None, "/retry_plan"),
        (7, "/retry_plan"),
        ([1, 5], "/retry_plan"),
        ({}, "/retry_plan/delays_seconds"),
        ({"delays_seconds": None}, "/retry_plan/delays_seconds"),
        ({"delays_seconds": "1,5"}, "/retry_plan/delays_seconds"),
        ({"delays_seconds": {"0": 1}}, "/retry_plan/delays_seconds"),
        ({"delays_seconds": [1] * 101}, "/retry_plan/delays_seconds"),
        ({"delays_seconds": [86_400] * 14 + [1]}, "/retry_plan/delays_seconds"),
        ({"delays_seconds": [1, -1]}, "/retry_plan/delays_seconds/1"),
        ({"delays_seconds": [86_401]}, "/retry_plan/delays_seconds/0"),
        ({"delays_seconds": [1, 2, "3"]}, "/retry_plan/delays_seconds/2"),
        ({"delays_seconds": [1, None]}, "/retry_plan/delays_seconds/1"),
        ({"delays_seconds": [[1]]}, "/retry_plan/delays_seconds/0"),
        ({"delays_seconds": [True]}, "/retry_plan/delays_seconds/0"),
        ({"delays_seconds": [math.nan]}, "/retry_plan/delays_seconds/0"),
        ({"delays_seconds": [math.inf]}, "/retry_plan/delays_seconds/0"),
        ({"delays_seconds": [-math.inf]}, "/retry_plan/delays_seconds/0"),
        ({"delays_seconds": [10**400]}, "/retry_plan/delays_seconds/0"),
        ({"delays_seconds": [1], "jitter": 1.01}, "/retry_plan/jitter"),
        ({"delays_seconds": [1], "jitter": -0.1}, "/retry_plan/jitter"),
        ({"delays_seconds": [1], "jitter": "0.1"}, "/retry_plan/jitter"),
        ({"delays_seconds": [1], "jitter": None}, "/retry_plan/jitter"),
        ({"delays_seconds": [1], "jitter": False}, "/retry_plan/jitter"),
        ({"delays_seconds": [1], "jitter": math.nan}, "/retry_plan/jitter"),
        ({"delays_seconds": [1], "retry_on": "never"}, "/retry_plan/retry_on"),
        ({"delays_seconds": [1], "retry_on": "server"}, "/retry_plan/retry_on"),
        ({"delays_seconds": [1], "retry_on": None}, "/retry_plan/retry_on"),
        ({"delays_seconds": [1], "retry_on": ["all"]}, "/retry_plan/retry_on"),
        ({"delays_seconds": [1], "timeout": 3}, "/retry_plan/timeout"),
        ({"delays_seconds": [1], "a/b~c": 3}, "/retry_plan/a~1b~0c"),
    ],
)
def test_invalid_plan_is_rejected_with_a_pointer(spec: Any, pointer: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_plan(spec)
    assert caught.value.code == "invalid_retry_plan"
    assert [error.pointer for error in caught.value.errors] == [pointer]


def test_pointer_starts_with_the_callers_prefix() -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_plan({"delays_seconds": [1, -1]}, pointer="/endpoint/plan")
    assert caught.value.errors[0].pointer == "/endpoint/plan/delays_seconds/1"


def test_hourly_plan_never_waits_less_than_before() -> None:
    assert all(one <= other for one, other in pairwise(PRESETS["hourly"].delays))

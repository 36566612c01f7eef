"""When a call is sent again, and after how long."""

from __future__ import annotations

import pytest

from hookfast_client.call import Call, delete, emit, get, patch, post, post_job, put
from hookfast_client.errors import (
    ApiError,
    ConnectionFailed,
    HookfastError,
    InvalidInput,
    RateLimited,
    TimedOut,
    Unavailable,
    UnexpectedAnswer,
)
from hookfast_client.retry import Attempts, Limits, backoff

_REPEATABLE = get("/jobs")
_ONCE = post("/tenants", {})


def _longest(shortest: float, longest: float) -> float:
    return longest


def _attempts(call: Call, **limits: float) -> tuple[Attempts, list[float]]:
    now = [100.0]
    chosen = Limits(**limits)  # type: ignore[arg-type]
    return Attempts(call, chosen, clock=lambda: now[0], uniform=_longest), now


def _api_error(status: int, code: str = "unavailable", after: float | None = None) -> ApiError:
    problem = {"detail": "No.", "code": code}
    return ApiError.from_problem(problem, status=status, retry_after=after)


def test_pauses_double_to_ten_seconds() -> None:
    pauses = [backoff(retries, uniform=_longest) for retries in (0, 1, 2, 3, 4, 5, 6, 10**9)]
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0]
    assert all(0.25 <= backoff(0) <= 0.5 for _ in range(100))


@pytest.mark.parametrize(
    ("error", "repeatable", "once"),
    [
        (ConnectionFailed("refused", outcome_unknown=False), True, True),
        (ConnectionFailed("reset", outcome_unknown=True), True, False),
        (TimedOut("connecting", outcome_unknown=False), True, True),
        (TimedOut("reading", outcome_unknown=True), True, False),
        (_api_error(408), True, True),
        (_api_error(429), True, True),
        (_api_error(503, "overloaded"), True, True),
        (_api_error(503), True, False),
        (_api_error(502), True, False),
        (_api_error(504), True, False),
        (_api_error(500), False, False),
        (_api_error(409), False, False),
        (_api_error(422), False, False),
        (UnexpectedAnswer("a page", status=200), False, False),
    ],
)
def test_what_may_have_been_done_is_repeated_only_if_that_is_harmless(
    error: HookfastError, repeatable: bool, once: bool
) -> None:
    for call, repeated in ((_REPEATABLE, repeatable), (_ONCE, once)):
        attempts, _ = _attempts(call)
        assert (attempts.pause_after(error) is not None) == repeated


def test_calls_that_are_harmless_to_repeat() -> None:
    event = emit(b"{}", idempotency_key=None)
    repeatable = [get("/a"), put("/a", {}), patch("/a", {}), delete("/a"), event]
    repeatable += [post("/a", repeatable=True), post_job("/a", {}, dry_run=True)]
    assert all(call.repeatable for call in repeatable)
    assert not post("/a").repeatable
    assert not post_job("/a", {}, dry_run=False).repeatable


def test_retry_after_is_obeyed_if_it_is_longer_and_within_the_deadline() -> None:
    attempts, now = _attempts(_ONCE, timeout=20.0)
    assert attempts.pause_after(_api_error(429, after=7.5)) == 7.5
    now[0] += 7.5
    assert attempts.pause_after(_api_error(429, after=0.0)) == 1.0
    assert attempts.pause_after(_api_error(429, after=12.5)) is None
    assert attempts.pause_after(_api_error(429, after=float("inf"))) is None


def test_attempts_share_the_time() -> None:
    attempts, now = _attempts(_REPEATABLE, timeout=50.0, attempt_timeout=30.0)
    assert attempts.seconds() == 30.0
    now[0] += 30.0
    assert attempts.pause_after(TimedOut("slow", outcome_unknown=True)) == 0.5
    now[0] += 0.5
    assert attempts.seconds() == 19.5
    now[0] += 19.5
    assert attempts.pause_after(TimedOut("slow", outcome_unknown=True)) is None


def test_retries_are_counted() -> None:
    attempts, _ = _attempts(_REPEATABLE, max_retries=2)
    error = ConnectionFailed("refused", outcome_unknown=False)
    assert [attempts.pause_after(error) for _ in range(3)] == [0.5, 1.0, None]


@pytest.mark.parametrize("wrong", [{"timeout": 0}, {"attempt_timeout": -1}, {"max_retries": -1}])
def test_limits_that_allow_nothing_are_rejected(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        Limits(**wrong)  # type: ignore[arg-type]


def test_an_unknown_outcome_is_remembered() -> None:
    attempts, _ = _attempts(delete("/a"))
    attempts.pause_after(RateLimited("later", status=429, code="rate_limited"))
    assert not attempts.may_be_done
    attempts.pause_after(Unavailable("away", status=503, code="unavailable"))
    attempts.pause_after(InvalidInput("no", status=422, code="invalid_input"))
    assert attempts.may_be_done

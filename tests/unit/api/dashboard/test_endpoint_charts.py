"""The charts of an endpoint: attempts by class, and how fast they were answered."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from api.dashboard.pages.endpoint_charts import TimedStep
from api.site.attempt_chart import AttemptClass
from hookfast.deliveries.figures import Numbers, Owner, Tally
from hookfast.deliveries.outcome import Result

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def step(*attempts: tuple[str, int | None, float]) -> TimedStep:
    """Return the step of these attempts: result, status, milliseconds."""
    tally, numbers = Tally(), Numbers()
    for result, status, took in attempts:
        owner = Owner("tnt_1", "ep_1", "order.invoice.paid")
        tally.attempt(owner, NOON, Result(result), status, took, first=True)
    for key, number in tally.numbers():
        numbers.add(key.kind, key.bucket, number)
    return TimedStep.of(NOON, NOON + timedelta(minutes=1), numbers)


@pytest.mark.parametrize(
    ("result", "status", "answer"),
    [
        ("success", 204, "success"),
        ("status", 404, "4xx"),
        ("status", 503, "5xx"),
        ("status", 302, "other"),
        ("timeout", None, "timeout"),
        ("timeout", 200, "timeout"),  # its body did not end in time
        *(
            (each.value, None, "other")
            for each in Result
            if each.value not in ("success", "status", "timeout")
        ),
    ],
)
def test_every_result_has_a_class(result: str, status: int | None, answer: str) -> None:
    assert step((result, status, 5.0)).counts == {AttemptClass(answer): 1}


def test_classes_are_sums_of_answers() -> None:
    found = step(("dns", None, 1.0), ("tls", None, 1.0), ("status", 301, 1.0))
    assert found.counts == {AttemptClass.OTHER: 3}
    assert found.total == 3


def test_response_times_are_of_answered_attempts() -> None:
    assert step(("timeout", None, 5_000.0)).p95 is None
    found = step(*[("success", 200, 100.0)] * 18, *[("status", 500, 900.0)] * 2, ("dns", None, 9e3))
    assert found.p50 == pytest.approx(100, rel=0.12)
    assert found.p95 == pytest.approx(900, rel=0.12)

"""How late retries begin, by which a worker notices that it does not keep up."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.integration.delivery.plans import QUICK
from tests.integration.delivery.steps import Steps

pytestmark = pytest.mark.anyio

LATE = timedelta(seconds=90)
"""How far Temporal's clock is ahead of this machine's, from which no other time follows."""


@pytest.fixture
def noted(steps: Steps, monkeypatch: pytest.MonkeyPatch) -> list[timedelta]:
    """How late retries began."""
    noted: list[timedelta] = []
    monkeypatch.setattr(steps.pace, "retry_began", noted.append)
    return noted


async def test_lateness_in_the_fast_lane_is_by_temporals_clock(
    steps: Steps, noted: list[timedelta]
) -> None:
    delivery = await steps.deliver_to("/fail-first/1", plan=QUICK)
    due = (await steps.row(delivery)).next_attempt_at + LATE
    await steps.step(delivery, at=due + timedelta(seconds=0.5), due=due, local=True)
    assert noted == [timedelta(seconds=0.5)]


async def test_retry_that_the_fast_lane_does_not_take_is_noted_once(
    steps: Steps, noted: list[timedelta]
) -> None:
    delivery = await steps.deliver_to("/fail-first/1", plan=QUICK)
    due = (await steps.row(delivery)).next_attempt_at
    too_short = timedelta(seconds=0.5)
    result = await steps.step(delivery, at=due, due=due, local=True, within=too_short)
    assert result.lane_full
    assert noted == []
    await steps.step(delivery, at=due, due=due)
    assert len(noted) == 1

"""Resends that wait at their endpoint's limits, and leave the retry plan as it was."""

from __future__ import annotations

import pytest

from hookfast.clock import utc_now
from hookfast.deliveries.facts import Action
from hookfast.storage.endpoints import endpoint_state
from tests.integration.delivery.plans import PATIENT
from tests.integration.delivery.steps import Steps

pytestmark = pytest.mark.anyio

PAUSE, RESEND, CANCEL = Action.PAUSE, Action.RESEND, Action.CANCEL
SLOW = {"rate_limit_per_second": 0.01}
"""A limit at which the next attempt waits for 100 seconds."""


async def paused_after_a_failure(steps: Steps) -> str:
    """Return a paused delivery whose endpoint takes no request for the next 100 seconds."""
    steps.receiver.routes["/hook"] = "/status/500"
    delivery = await steps.deliver_to("/hook", plan=PATIENT, **SLOW)
    assert (await steps.step(delivery, PAUSE)).status == "paused"
    return delivery


async def triggers(steps: Steps, delivery: str) -> list[str]:
    return [row.trigger for row in await steps.attempts(delivery)]


async def test_limited_resend_of_a_paused_delivery_is_sent_when_the_limit_allows(
    steps: Steps,
) -> None:
    delivery = await paused_after_a_failure(steps)
    steps.receiver.routes["/hook"] = "/ok"

    limited = await steps.step(delivery, RESEND)

    assert (limited.status, limited.attempts) == ("paused", 1)
    assert limited.next_at is not None
    assert (await steps.step(delivery, at=limited.next_at)).status == "delivered"
    assert await triggers(steps, delivery) == ["first", "resend"]


async def test_paused_delivery_stays_paused_when_its_limited_resend_fails(steps: Steps) -> None:
    delivery = await paused_after_a_failure(steps)

    limited = await steps.step(delivery, RESEND)
    await steps.step(delivery, at=limited.next_at)

    assert await triggers(steps, delivery) == ["first", "resend"]
    row = await steps.row(delivery)
    assert (row.status, row.retries, row.next_attempt_at) == ("paused", 0, None)


async def test_cancel_withdraws_a_resend_that_waits_at_a_limit(steps: Steps) -> None:
    delivery = await paused_after_a_failure(steps)
    assert (await steps.step(delivery, RESEND)).next_at is not None

    result = await steps.step(delivery, CANCEL)

    assert (result.status, result.next_at) == ("cancelled", None)
    assert len(steps.receiver.requests) == 1


async def test_limited_resends_of_held_deliveries_are_sent_one_after_the_other(
    steps: Steps,
) -> None:
    endpoint = await steps.endpoint("/ok", **SLOW)
    await steps.change_endpoint(endpoint_state.pause, endpoint)
    first, second = [await steps.deliver(endpoint) for _ in range(2)]
    for delivery in (first, second):
        assert (await steps.step(delivery)).status == "held"

    assert (await steps.step(first, RESEND)).status == "delivered"
    limited = await steps.step(second, RESEND)
    assert limited.attempts == 0
    assert (await steps.step(second, at=limited.next_at)).status == "delivered"

    assert [await triggers(steps, one) for one in (first, second)] == [["resend"], ["resend"]]


async def test_limited_resend_of_a_cancelled_delivery_begins_its_plan_again(steps: Steps) -> None:
    delivery = await steps.deliver_to("/fail-first/2", plan=PATIENT, **SLOW)

    limited = await steps.step(delivery, CANCEL, RESEND)
    result = await steps.step(delivery, at=limited.next_at)

    assert await triggers(steps, delivery) == ["first", "resend"]
    assert (result.status, result.attempts, result.retries) == ("retrying", 2, 0)
    assert result.next_at is not None
    assert result.next_at > utc_now()

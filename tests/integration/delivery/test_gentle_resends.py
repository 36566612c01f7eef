"""A resend that is one of many waits where deliveries are held, and leaves the plan as it was."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hookfast.clock import utc_now
from hookfast.deliveries.facts import Action
from hookfast.endpoints.circuit import Cause
from hookfast.storage.endpoints import endpoint_state
from tests.integration.delivery.circuits import ON_REQUEST, broken, until_attempts, until_circuit
from tests.integration.delivery.conftest import Stack

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]

_A_MOMENT = timedelta(seconds=60)
"""A workflow sets its timer when it hears of what was planned; of a delay of ten minutes."""


async def test_one_that_was_held_and_fails_waits_for_its_plan_again(stack: Stack) -> None:
    endpoint, [held, by_hand, _] = await broken(stack, circuit=ON_REQUEST)
    planned = (await stack.row(held)).next_attempt_at
    await stack.request_many([held], Action.RESEND_YIELDING)
    await stack.until_status(held, "held")

    stack.receiver.routes["/hook"] = "/fail-first/1"
    for attempts in (2, 3):
        await stack.workflow(by_hand).signal("resend")
        await until_attempts(stack, by_hand, attempts)
    await until_attempts(stack, held, 2)

    after = await stack.until_status(held, "retrying")
    assert abs(after.next_attempt_at - planned) < _A_MOMENT
    await until_circuit(stack, endpoint, "closed")


async def test_one_that_was_held_for_an_endpoint_that_is_disabled_waits_for_its_plan_again(
    stack: Stack,
) -> None:
    endpoint, [held, *_] = await broken(stack, circuit=ON_REQUEST)
    await stack.request_many([held], Action.RESEND_YIELDING)
    await stack.until_status(held, "held")

    async with stack.database.write() as connection:
        assert await endpoint_state.disable(
            connection, endpoint, cause=Cause.DISABLED, reason="By request.", now=utc_now()
        )
    after = await stack.until_status(held, "retrying")
    assert after.attempts == 1
    await until_circuit(stack, endpoint, "closed")

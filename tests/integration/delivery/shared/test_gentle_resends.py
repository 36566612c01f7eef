"""Resends that yield to an open circuit are held, and leave the retry plan as it was."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hookfast.deliveries.facts import Action
from hookfast.endpoints.circuit import Cause
from hookfast.storage.endpoints import endpoint_state
from tests.integration.delivery.circuits import ON_REQUEST, broken, until_circuit
from tests.integration.delivery.conftest import Stack

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]

_TOLERANCE = timedelta(seconds=60)
"""The workflow sets its timer a little after the plan was made; the delay is ten minutes."""


async def test_held_resend_that_fails_returns_to_its_retry_plan(stack: Stack) -> None:
    endpoint, [held, by_hand, _] = await broken(stack, circuit=ON_REQUEST)
    planned = (await stack.row(held)).next_attempt_at
    await stack.request_many([held], Action.RESEND_YIELDING)
    await stack.until_status(held, "held")

    stack.receiver.routes["/hook"] = "/fail-first/1"
    for attempts in (2, 3):
        await stack.workflow(by_hand).signal("resend")
        await stack.until_attempts(by_hand, attempts)
    await stack.until_attempts(held, 2)

    after = await stack.until_status(held, "retrying")
    assert abs(after.next_attempt_at - planned) < _TOLERANCE
    await until_circuit(stack, endpoint, "closed")


async def test_held_resend_to_an_endpoint_that_is_disabled_returns_to_its_retry_plan(
    stack: Stack,
) -> None:
    endpoint, [held, *_] = await broken(stack, circuit=ON_REQUEST)
    await stack.request_many([held], Action.RESEND_YIELDING)
    await stack.until_status(held, "held")

    await stack.change_endpoint(
        endpoint_state.disable, endpoint, cause=Cause.DISABLED, reason="By request."
    )
    after = await stack.until_status(held, "retrying")
    assert after.attempts == 1
    await until_circuit(stack, endpoint, "closed")

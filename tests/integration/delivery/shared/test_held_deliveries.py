"""Deliveries that a circuit holds: cancelled, probed, and resent by a job that yields to it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hookfast.clock import utc_now
from hookfast.deliveries.facts import Action
from hookfast.endpoints.circuit import Cause
from hookfast.storage.endpoints import endpoint_state
from tests.integration.delivery.circuits import (
    ON_REQUEST,
    broken,
    hold,
    times_sent,
    until_circuit,
    until_over,
    until_workflow_waits,
)
from tests.integration.delivery.conftest import Stack
from tests.integration.delivery.control import Control
from tests.integration.delivery.plans import PATIENT, SOON

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]


_TOLERANCE = timedelta(seconds=60)
"""The workflow sets its timer a little after the plan was made; the delay is ten minutes."""


async def test_a_held_delivery_can_be_cancelled(stack: Stack, control: Control) -> None:
    endpoint, _ = await broken(stack, circuit=ON_REQUEST)
    [cancelled, other] = await hold(stack, endpoint, 2)
    await stack.workflow(cancelled).cancel()
    await stack.until_status(cancelled, "cancelled")
    await stack.until_closed(cancelled)
    stack.receiver.routes["/hook"] = "/ok"
    await control.probe(endpoint)
    await until_over(stack, endpoint)
    assert (await stack.row(cancelled)).status == "cancelled"
    assert times_sent(stack, [cancelled, other]) == [0, 1]


async def test_yielding_resend_of_a_finished_delivery_is_held_with_the_others(
    stack: Stack, control: Control
) -> None:
    stack.receiver.routes["/hook"] = "/ok"
    endpoint = await stack.endpoint("/hook", plan=PATIENT, circuit=ON_REQUEST)
    delivery = await stack.deliver(endpoint)
    await stack.until_closed(delivery)
    stack.receiver.routes["/hook"] = "/status/500"
    failed = await stack.deliver_together(endpoint, 3)
    await stack.until_all(failed, "retrying")
    await until_circuit(stack, endpoint, "open")

    await stack.request_many([delivery], Action.RESEND_YIELDING)
    row = await stack.until_status(delivery, "held")
    assert (row.attempts, row.finished_at) == (1, None)
    assert times_sent(stack, [delivery]) == [1]
    stack.receiver.routes["/hook"] = "/ok"
    await stack.workflow(failed[0]).signal("resend")
    await stack.until_status(delivery, "delivered")
    await until_over(stack, endpoint)
    await stack.until_closed(delivery)
    assert times_sent(stack, [delivery]) == [2]
    assert [attempt.number for attempt in await stack.attempts(delivery)] == [1, 2]


async def test_holding_and_probing_use_up_neither_retries_nor_the_plans_time(
    stack: Stack, control: Control
) -> None:
    begun = utc_now()
    endpoint, failed = await broken(stack, circuit=ON_REQUEST, plan=SOON)
    await stack.until_all(failed, "held")
    held_since = utc_now()
    await control.probe(endpoint)
    probed = min(failed)
    row = await stack.until_attempts(probed, 2)
    assert (row.status, row.retries) == ("held", 0)
    await until_workflow_waits(stack, endpoint, seconds=600)
    waiting = [await stack.row(one) for one in failed]
    assert all(begun < row.began_at < row.waiting_since < held_since for row in waiting)
    stack.receiver.routes["/hook"] = "/ok"
    await control.probe(endpoint)
    await stack.until_all(failed, "delivered")
    await until_over(stack, endpoint)
    assert {(await stack.row(one)).retries for one in failed} <= {0, 1}


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

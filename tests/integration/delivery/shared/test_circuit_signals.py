"""The signals around a circuit, `release` and `wake`: too early, repeated and too late."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import pytest
from temporalio.client import WorkflowHandle

from hookfast.deliveries.facts import Action
from hookfast.endpoints.outage import WORKFLOW_TYPE, CircuitInput, OutageState, workflow_id
from hookfast.workflow_request import CONTROL_QUEUE, WAKE
from tests.integration.delivery.circuits import (
    ON_REQUEST,
    broken,
    circuit,
    hold,
    times_sent,
    until_circuit,
    until_over,
)
from tests.integration.delivery.conftest import Stack
from tests.integration.delivery.control import Control
from tests.integration.delivery.plans import PATIENT, SOON
from tests.support.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]


async def until_held_again(stack: Stack, delivery: str, *, since: datetime) -> None:
    await stack.until(
        delivery, lambda row: row.status == "held" and not row.released and row.updated_at > since
    )


async def start_circuit_workflow(stack: Stack, endpoint: str) -> WorkflowHandle[Any, OutageState]:
    return await stack.client.start_workflow(
        WORKFLOW_TYPE,
        CircuitInput(endpoint),
        id=workflow_id(endpoint),
        task_queue=CONTROL_QUEUE,
        start_signal=WAKE,
        result_type=OutageState,
    )


async def test_repeated_release_sends_once(stack: Stack, control: Control) -> None:
    endpoint, _ = await broken(stack, circuit=ON_REQUEST)
    deliveries = await hold(stack, endpoint, 3)
    stack.receiver.routes["/hook"] = "/ok"
    await control.probe(endpoint)
    await until_circuit(stack, endpoint, "draining")
    for delivery in deliveries[1:] * 2:
        await stack.request_many([delivery], Action.RELEASE)
        await stack.wake(delivery)
    await stack.until_all(deliveries, "delivered")
    await until_over(stack, endpoint)
    assert times_sent(stack, deliveries) == [1, 1, 1]


async def test_a_release_while_the_circuit_is_open_sends_nothing(stack: Stack) -> None:
    endpoint, _ = await broken(stack, circuit=ON_REQUEST)
    [delivery] = await hold(stack, endpoint)
    before = (await stack.row(delivery)).updated_at
    await stack.request_many([delivery], Action.RELEASE)
    await until_held_again(stack, delivery, since=before)
    for probe in (False, True):
        await stack.workflow(delivery).signal("release", probe)
    await stack.request(delivery, "pause")
    await stack.until_status(delivery, "paused")
    assert times_sent(stack, [delivery]) == [0]
    assert (await stack.row(delivery)).attempts == 0


@pytest.mark.parametrize("ended", ["delivered", pytest.param("cancelled", marks=pytest.mark.slow)])
async def test_a_release_of_a_delivery_that_has_ended_changes_nothing(
    stack: Stack, ended: str
) -> None:
    endpoint = await stack.endpoint("/ok" if ended == "delivered" else "/status/500", plan=PATIENT)
    delivery = await stack.deliver(endpoint)
    if ended == "cancelled":
        await stack.until_status(delivery, "retrying")
        await stack.workflow(delivery).signal("cancel")
    await stack.until_status(delivery, ended)
    await stack.until_closed(delivery)
    before = await stack.row(delivery)
    await stack.request_many([delivery], Action.RELEASE)
    assert await stack.row(delivery) == before
    description = await stack.workflow(delivery).describe()
    assert description.status is not None
    assert description.status.name == {"delivered": "COMPLETED", "cancelled": "CANCELED"}[ended]
    assert times_sent(stack, [delivery]) == [1]


async def test_paused_delivery_is_never_chosen_as_the_probe(stack: Stack, control: Control) -> None:
    endpoint, _ = await broken(stack, circuit=ON_REQUEST)
    [delivery, other] = await hold(stack, endpoint, 2)
    await stack.signal(delivery, "pause", until="paused")
    await stack.wake(delivery)
    await stack.request_many([delivery], Action.RELEASE)
    stack.receiver.routes["/hook"] = "/ok"
    await control.probe(endpoint)  # the other delivery is the probe
    await until_over(stack, endpoint)
    assert (await stack.row(delivery)).status == "paused"
    assert times_sent(stack, [delivery, other]) == [0, 1]
    await stack.signal(delivery, "resume", until="delivered")
    await stack.until_closed(delivery)
    assert times_sent(stack, [delivery]) == [1]


@pytest.mark.parametrize("attempted", [False, True], ids=["before its first attempt", "later"])
async def test_held_delivery_whose_workflow_was_lost_is_sent_after_recovery(
    stack: Stack, control: Control, attempted: bool
) -> None:
    endpoint, failed = await broken(stack, circuit=ON_REQUEST, plan=SOON)
    await stack.until_all(failed, "held")  # their first retries
    deliveries = failed if attempted else await hold(stack, endpoint, 3)
    for delivery in deliveries:
        await stack.workflow(delivery).terminate("lost")
    stack.receiver.routes["/hook"] = "/ok"
    await stack.workflow(failed[0] if not attempted else (await hold(stack, endpoint))[0]).signal(
        "resend"
    )
    await stack.until_all(deliveries, "delivered")
    await until_over(stack, endpoint)
    assert times_sent(stack, deliveries) == [1 + attempted] * 3


async def test_probe_whose_workflow_was_lost_is_sent_as_the_probe(
    stack: Stack, control: Control
) -> None:
    endpoint, failed = await broken(stack, circuit=ON_REQUEST, plan=SOON)
    await stack.until_all(failed, "held")
    for delivery in failed:
        await stack.workflow(delivery).terminate("lost")
    stack.receiver.routes["/hook"] = "/ok"
    await control.probe(endpoint)
    await stack.until_all(failed, "delivered")
    await until_over(stack, endpoint)
    assert times_sent(stack, failed) == [2, 2, 2]


async def test_repeated_and_late_wakes_of_a_circuit_change_nothing(
    stack: Stack, control: Control
) -> None:
    endpoint, _ = await broken(stack, circuit=ON_REQUEST)
    deliveries = await hold(stack, endpoint, 2)
    workflow = stack.client.get_workflow_handle(workflow_id(endpoint))
    for _ in range(3):
        await workflow.signal(WAKE)
    for _ in range(2):
        await stack.workflow_starter.start_requested()
    stack.receiver.routes["/hook"] = "/ok"
    await control.probe(endpoint)
    await workflow.signal(WAKE)
    first = await until_over(stack, endpoint)
    assert (first.episode, first.drained) == (1, 1)

    again = await start_circuit_workflow(stack, endpoint)  # as a slow workflow starter does
    await again.result()
    late = await until_over(stack, endpoint)
    assert (late.episode, late.drained) == (1, 1)
    assert times_sent(stack, deliveries) == [1, 1]


async def test_wake_of_an_endpoint_that_never_failed_ends_at_once(stack: Stack) -> None:
    endpoint = await stack.endpoint("/ok")
    handle = await start_circuit_workflow(stack, endpoint)
    async with asyncio.timeout(PATIENCE):
        state = await handle.result()
    assert (state.state, state.episode) == ("closed", 0)
    delivery = await stack.deliver(endpoint)
    await stack.until_status(delivery, "delivered")


async def test_a_terminated_circuit_workflow_is_started_again_by_the_next_change(
    stack: Stack, control: Control
) -> None:
    endpoint, _ = await broken(stack, circuit=ON_REQUEST)
    deliveries = await hold(stack, endpoint, 2)
    workflow = stack.client.get_workflow_handle(workflow_id(endpoint))

    async def workflow_started() -> bool:
        return (await circuit(stack, endpoint)).workflow_started

    await eventually(workflow_started)
    await workflow.terminate("by hand")
    stack.receiver.routes["/hook"] = "/ok"
    await control.probe(endpoint)
    await stack.until_all(deliveries, "delivered")
    await until_over(stack, endpoint)
    assert times_sent(stack, deliveries) == [1, 1]


async def test_probe_that_waits_at_a_limit_is_still_a_probe(stack: Stack, control: Control) -> None:
    stack.receiver.routes["/hook"] = "/status/500"
    options = ON_REQUEST | {"failure_threshold": 1}
    endpoint = await stack.endpoint("/hook", plan=PATIENT, circuit=options, max_in_flight=1)
    failed = await stack.deliver(endpoint)
    await until_circuit(stack, endpoint, "open")
    delivery = await stack.deliver(endpoint)
    await stack.until_status(delivery, "held")
    stack.receiver.routes["/hook"] = "/slow/2?status=500"
    await stack.workflow(failed).signal("resend")
    await stack.receiver.wait_for(2)  # max_in_flight is reached now
    await control.probe(endpoint)

    row = await stack.until_attempts(delivery, 1)
    assert [attempt.trigger for attempt in await stack.attempts(delivery)] == ["probe"]
    assert (row.status, row.retries) == ("held", 0)

"""Pausing, cancelling and resending deliveries that a circuit holds."""

from __future__ import annotations

import pytest

from hookfast.clock import utc_now
from hookfast.deliveries.facts import Action
from tests.integration.delivery.circuits import (
    ON_REQUEST,
    broken,
    circuit,
    count_held,
    hold,
    times_sent,
    until_circuit,
    until_over,
    until_workflow_waits,
)
from tests.integration.delivery.conftest import Stack
from tests.integration.delivery.control import Control
from tests.integration.delivery.plans import PATIENT, SOON
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]


async def test_a_held_delivery_can_be_paused_and_is_held_again_when_it_is_resumed(
    stack: Stack, control: Control
) -> None:
    endpoint, _ = await broken(stack, circuit=ON_REQUEST)
    deliveries = await hold(stack, endpoint, 2)
    for _ in range(2):
        await stack.signal(deliveries[0], "pause", until="paused")
        assert await count_held(stack, endpoint) == 1
        await stack.signal(deliveries[0], "resume", until="held")
    assert times_sent(stack, deliveries) == [0, 0]
    stack.receiver.routes["/hook"] = "/ok"
    await control.probe(endpoint)
    await stack.until_all(deliveries, "delivered")
    await until_over(stack, endpoint)
    assert times_sent(stack, deliveries) == [1, 1]


async def test_a_delivery_resumed_after_its_circuit_closed_is_sent(
    stack: Stack, control: Control
) -> None:
    endpoint, _ = await broken(stack, circuit=ON_REQUEST)
    [paused, other] = await hold(stack, endpoint, 2)
    await stack.signal(paused, "pause", until="paused")
    stack.receiver.routes["/hook"] = "/ok"
    await control.probe(endpoint)
    await until_over(stack, endpoint)
    assert times_sent(stack, [paused, other]) == [0, 1]
    await stack.signal(paused, "resume", until="delivered")
    assert times_sent(stack, [paused]) == [1]


@pytest.mark.parametrize("by", ["signal", "temporal"])
async def test_a_held_delivery_can_be_cancelled(stack: Stack, control: Control, by: str) -> None:
    endpoint, _ = await broken(stack, circuit=ON_REQUEST)
    [cancelled, other] = await hold(stack, endpoint, 2)
    handle = stack.workflow(cancelled)
    await (handle.signal("cancel") if by == "signal" else handle.cancel())
    await stack.until_status(cancelled, "cancelled")
    await stack.until_closed(cancelled)
    stack.receiver.routes["/hook"] = "/ok"
    await control.probe(endpoint)
    await until_over(stack, endpoint)
    assert (await stack.row(cancelled)).status == "cancelled"
    assert times_sent(stack, [cancelled, other]) == [0, 1]


@pytest.mark.parametrize("attempted", [False, True], ids=["before its first attempt", "later"])
async def test_a_failed_resend_of_a_held_delivery_leaves_it_held(
    stack: Stack, control: Control, attempted: bool
) -> None:
    endpoint, failed = await broken(stack, circuit=ON_REQUEST, plan=SOON)
    await stack.until_all(failed, "held")
    [delivery] = failed[:1] if attempted else await hold(stack, endpoint)
    before = await stack.row(delivery)
    await stack.workflow(delivery).signal("resend")
    after = await stack.until_attempts(delivery, before.attempts + 1)
    assert (after.status, after.reason, after.retries) == ("held", "circuit_open", 0)
    assert after.next_attempt_at == before.next_attempt_at
    assert (await circuit(stack, endpoint)).state == "open"

    stack.receiver.routes["/hook"] = "/ok"
    await control.probe(endpoint)
    await stack.until_all([delivery, *failed], "delivered")
    await until_over(stack, endpoint)
    assert times_sent(stack, [delivery]) == [before.attempts + 2]


async def test_yielding_resend_of_a_finished_delivery_is_held_with_the_others(
    stack: Stack, control: Control
) -> None:
    stack.receiver.routes["/hook"] = "/ok"
    endpoint = await stack.endpoint("/hook", plan=PATIENT, circuit=ON_REQUEST)
    delivery = await stack.deliver(endpoint)
    await stack.until_closed(delivery)
    stack.receiver.routes["/hook"] = "/status/500"
    failed = [await stack.deliver(endpoint) for _ in range(3)]
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


async def test_a_resend_to_a_disabled_endpoint_makes_no_attempt(
    stack: Stack, control: Control
) -> None:
    delivery = await stack.deliver(await stack.endpoint("/status/500", plan=PATIENT))
    row = await stack.until_status(delivery, "retrying")
    await control.disable(row.endpoint_id)
    await stack.workflow(delivery).signal("resend")

    async def declined() -> bool:
        return "disabled" in str((await stack.state(delivery)).last_error)

    await eventually(declined)
    assert (await stack.row(delivery)).status == "retrying"
    assert (await stack.state(delivery)).attempts == 1
    await control.enable(row.endpoint_id)
    await stack.workflow(delivery).signal("resend")
    await stack.until_attempts(delivery, 2)
    # With a gap in the numbers, a later attempt would look like one that was made already.
    assert [attempt.number for attempt in await stack.attempts(delivery)] == [1, 2]
    assert [one.headers["x-hook-attempt"] for one in stack.receiver.requests] == ["1", "2"]

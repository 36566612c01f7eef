"""Resending a delivery: while its retry plan runs, and after it has ended."""

from __future__ import annotations

import pytest
from temporalio.client import WorkflowExecutionStatus

from hookfast.clock import utc_now
from hookfast.endpoints.circuit import Cause
from hookfast.errors import Conflict
from hookfast.storage.deliveries import actions
from hookfast.storage.endpoints import endpoint_state, endpoints
from tests.integration.delivery.conftest import Stack
from tests.integration.delivery.plans import PATIENT, QUICK

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]


async def test_a_failed_resend_neither_ends_nor_moves_the_plan(stack: Stack) -> None:
    delivery = await stack.deliver(await stack.endpoint("/status/500", plan=PATIENT))
    before = await stack.until_status(delivery, "retrying")

    await stack.workflow(delivery).signal("resend")
    await stack.receiver.wait_for(2)

    after = await stack.until_attempts(delivery, 2)
    assert (after.status, after.retries) == ("retrying", 0)
    assert after.next_attempt_at == before.next_attempt_at
    now = await stack.state(delivery)
    assert now.retries == 0
    assert now.next_attempt_at is not None
    assert abs((now.next_attempt_at - before.next_attempt_at).total_seconds()) < 2
    assert [attempt.trigger for attempt in await stack.attempts(delivery)] == ["first", "resend"]


async def test_a_resend_that_succeeds_ends_the_delivery(stack: Stack) -> None:
    delivery = await stack.deliver_until("retrying", "/fail-first/1", plan=PATIENT)

    row = await stack.signal(delivery, "resend", until="delivered")
    assert row.attempts == 2


@pytest.mark.parametrize("ended", ["/ok", "/status/404"])
async def test_resend_of_a_finished_delivery_has_the_same_message_id(
    stack: Stack, ended: str
) -> None:
    stack.receiver.routes["/hook"] = ended
    delivery = await stack.deliver(await stack.endpoint("/hook", plan="stepped", timeout=5))
    await stack.until_status(delivery, "delivered", "dead")
    await stack.until_closed(delivery)

    stack.receiver.routes["/hook"] = "/ok"
    await stack.request(delivery, "resend")

    await stack.until(delivery, lambda row: row.attempts == 2 and row.status == "delivered")
    assert {request.message_id for request in stack.receiver.requests} == {delivery}
    attempts = await stack.attempts(delivery)
    assert [attempt.number for attempt in attempts] == [1, 2]
    assert attempts[1].trigger == "resend"


async def test_failed_resend_of_a_finished_delivery_gets_the_whole_retry_plan(stack: Stack) -> None:
    stack.receiver.routes["/hook"] = "/ok"
    delivery = await stack.deliver(await stack.endpoint("/hook", plan=QUICK))
    await stack.until_closed(delivery)

    stack.receiver.routes["/hook"] = "/status/500"
    await stack.request(delivery, "resend")

    row = await stack.until_status(delivery, "dead")
    assert (row.attempts, row.retries) == (5, 3)


@pytest.mark.parametrize("deleted", [False, True], ids=["disabled", "deleted"])
async def test_resend_to_a_disabled_or_deleted_endpoint_is_declined_and_changes_nothing(
    stack: Stack, deleted: bool
) -> None:
    endpoint = await stack.endpoint("/ok")
    delivery = await stack.deliver(endpoint)
    await stack.until_closed(delivery)
    before = await stack.row(delivery)
    async with stack.database.write() as connection:
        if deleted:
            await endpoints.mark_deleted(connection, endpoint, at=utc_now())
        else:
            await endpoint_state.disable(
                connection, endpoint, cause=Cause.DISABLED, reason="Disabled.", now=utc_now()
            )

    with pytest.raises(Conflict, match="deleted" if deleted else "disabled") as declined:
        await stack.request(delivery, "resend")

    assert declined.value.code == "endpoint_disabled"
    description = await stack.workflow(delivery).describe()
    assert description.status is WorkflowExecutionStatus.COMPLETED
    assert await stack.row(delivery) == before
    assert len(stack.receiver.requests) == 1


async def test_resend_whose_endpoint_is_disabled_before_the_attempt_is_a_dead_letter(
    stack: Stack,
) -> None:
    endpoint = await stack.endpoint("/ok")
    delivery = await stack.deliver(endpoint)
    await stack.until_closed(delivery)

    async with stack.database.write() as connection:
        await actions.request(connection, delivery, "resend", now=utc_now())
        await endpoint_state.disable(
            connection, endpoint, cause=Cause.DISABLED, reason="Disabled.", now=utc_now()
        )

    row = await stack.until_status(delivery, "dead")
    assert (row.reason, row.attempts) == ("endpoint_disabled", 1)
    ended = await stack.final_state(delivery)
    assert (ended.status, ended.attempts) == ("dead", 1)
    assert "Nothing was sent" in ended.last_error
    assert len(stack.receiver.requests) == 1

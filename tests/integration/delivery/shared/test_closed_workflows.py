"""Actions on deliveries whose workflow has ended, was lost, or ends at that moment."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import update
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.service import RPCError, RPCStatusCode

from hookfast.clock import utc_now
from hookfast.deliveries.facts import Action
from hookfast.errors import Conflict
from hookfast.ids import new_id
from hookfast.storage.endpoints import endpoint_state
from hookfast.storage.tables import Delivery
from tests.integration.delivery.conftest import Stack
from tests.integration.delivery.plans import PATIENT
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]


async def test_resend_takes_effect_although_a_batch_took_a_delivery_with_a_workflow(
    stack: Stack,
) -> None:
    """Its start got no answer, so the relay gave the delivery to a batch."""
    delivery = await stack.deliver_until("delivered", "/ok")
    await stack.until_closed(delivery)
    async with stack.database.write() as connection:
        batched = update(Delivery.__table__).values(batch_id=new_id("btc"))
        await connection.execute(batched.where(Delivery.__table__.c.id == delivery))

    await stack.request(delivery, "resend")

    await stack.until_attempts(delivery, 2)


@pytest.mark.parametrize(
    ("status", "action", "then"),
    [
        ("retrying", "pause", "paused"),
        pytest.param("retrying", "cancel", "cancelled", marks=pytest.mark.slow),
        pytest.param("paused", "cancel", "cancelled", marks=pytest.mark.slow),
        pytest.param("paused", "resume", "retrying", marks=pytest.mark.slow),
        ("paused", "resend", "delivered"),
    ],
)
async def test_action_takes_effect_although_the_workflow_was_terminated(
    stack: Stack, status: str, action: Any, then: str
) -> None:
    stack.receiver.routes["/hook"] = "/status/500"
    delivery = await stack.deliver_until("retrying", "/hook", plan=PATIENT)
    if status == "paused":
        await stack.request(delivery, "pause")
        await stack.until_status(delivery, "paused")
    await stack.until_relayed(delivery)
    await stack.workflow(delivery).terminate("lost")
    stack.receiver.routes["/hook"] = "/ok"

    await stack.request(delivery, action)

    row = await stack.until_status(delivery, then)
    sent = 2 if then == "delivered" else 1
    assert (row.attempts, len(stack.receiver.requests)) == (sent, sent)
    if row.finished_at is not None and action != "resend":
        await stack.until_closed(delivery)
        with pytest.raises(Conflict, match=f"ended as {then}"):
            await stack.request(delivery, action)


@pytest.mark.slow
async def test_scheduled_delivery_is_resumed_for_its_time_after_its_workflow_was_terminated(
    stack: Stack,
) -> None:
    due = utc_now() + timedelta(days=1)
    delivery = await stack.deliver(await stack.endpoint("/ok"), deliver_at=due)
    await stack.request(delivery, "pause")
    await stack.until_status(delivery, "paused")
    await stack.until_relayed(delivery)
    await stack.workflow(delivery).terminate("lost")

    await stack.request(delivery, "resume")

    row = await stack.until_status(delivery, "pending")
    assert row.next_attempt_at == due
    assert stack.receiver.requests == []


@pytest.mark.slow
async def test_delivery_paused_before_its_first_attempt_stays_paused_when_a_resend_fails(
    stack: Stack,
) -> None:
    endpoint = await stack.endpoint("/status/500", plan=PATIENT)
    delivery = await stack.deliver(endpoint, deliver_at=utc_now() + timedelta(days=1))
    await stack.request(delivery, "pause")
    await stack.until_status(delivery, "paused")
    await stack.until_relayed(delivery)
    await stack.workflow(delivery).terminate("lost")

    await stack.request(delivery, "resend")

    await stack.until(delivery, lambda row: row.attempts == 1 and row.status == "paused")


async def test_a_resend_that_crosses_the_end_of_the_workflow_begins_the_plan_again(
    stack: Stack,
) -> None:
    delivery = await stack.deliver_until("retrying", "/status/500", plan=PATIENT)
    await stack.signal(delivery, "cancel", until="cancelled")

    await stack.request(delivery, "resend")

    row = await stack.until_attempts(delivery, 2)
    assert (row.status, row.retries, row.finished_at) == ("retrying", 0, None)


async def test_resend_delivers_although_temporal_has_deleted_the_closed_workflow(
    stack: Stack,
) -> None:
    """As after the namespace's retention."""
    delivery = await stack.deliver_until("delivered", "/ok")
    await stack.until_relayed(delivery)
    await stack.until_closed(delivery)
    await _delete(stack, delivery)

    await stack.request(delivery, "resend")

    await stack.until_attempts(delivery, 2)
    await stack.until_closed(delivery)
    row = await stack.until_status(delivery, "delivered")
    assert (row.attempts, len(stack.receiver.requests)) == (2, 2)


async def _delete(stack: Stack, delivery: str) -> None:
    """Delete a closed workflow, and wait until it is gone."""
    handle = stack.workflow(delivery)
    await stack.client.workflow_service.delete_workflow_execution(
        DeleteWorkflowExecutionRequest(
            namespace=stack.client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=handle.id),
        )
    )

    async def gone() -> bool:
        try:
            await handle.describe()
        except RPCError as error:
            return error.status is RPCStatusCode.NOT_FOUND
        return False

    await eventually(gone)


async def test_a_release_that_crosses_the_end_of_the_workflow_sends_nothing(stack: Stack) -> None:
    endpoint = await stack.endpoint("/ok")
    await stack.change_endpoint(endpoint_state.pause, endpoint)
    delivery = await stack.deliver(endpoint)
    await stack.until_status(delivery, "held")
    await stack.request(delivery, "cancel")
    await stack.request_many([delivery], Action.RELEASE)
    await stack.workflow(delivery).signal("release")

    await stack.until_closed(delivery)
    assert (await stack.row(delivery)).status == "cancelled"
    assert stack.receiver.requests == []

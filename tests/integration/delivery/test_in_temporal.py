"""What Temporal shows of a delivery: its state and labels, never its body or a secret."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from temporalio.testing import WorkflowEnvironment

from api.context.temporal_retention import TemporalRetention
from hookfast.clock import utc_now
from hookfast.deliveries.messages import workflow_id
from hookfast.deliveries.search_attributes import SEARCH_ATTRIBUTES
from tests.integration.delivery.conftest import Stack
from tests.integration.delivery.plans import PATIENT, QUICK
from tests.support.seed import SECRET
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]

_UPSERTED = "upsert_workflow_search_attributes_event_attributes"


async def test_state_query_answers_with_status_and_next_attempt(stack: Stack) -> None:
    delivery = await stack.deliver(await stack.endpoint("/status/503", plan=PATIENT))
    row = await stack.until_status(delivery, "retrying")

    now = await stack.state(delivery)

    assert (now.status, now.attempts, now.retries, now.retries_planned) == ("retrying", 1, 0, 2)
    assert now.next_attempt_at is not None
    assert abs((now.next_attempt_at - row.next_attempt_at).total_seconds()) < 2
    assert "503" in (now.last_error or "")


async def test_api_reads_from_the_namespace_how_long_closed_workflows_are_kept(
    temporal: WorkflowEnvironment,
) -> None:
    retention, closed_at = TemporalRetention(temporal.client), utc_now()
    assert retention.end_of(closed_at) is None

    await retention.read()

    assert retention.end_of(closed_at) == closed_at + timedelta(days=1)  # the server's default
    assert retention.end_of(None) is None


async def test_search_attributes_and_summary_describe_a_delivery(stack: Stack) -> None:
    stack.receiver.routes["/hooks/private"] = "/status/500"
    endpoint = await stack.endpoint("/hooks/private?token=private", plan=PATIENT)
    delivery = await stack.deliver(endpoint)
    row = await stack.until_status(delivery, "retrying")

    async def retrying() -> Any:
        # the row is committed first; the workflow follows
        described = await stack.workflow(delivery).describe()
        pairs = described.typed_search_attributes
        attributes = {pair.key.name: pair.value for pair in pairs}
        return (described, attributes) if attributes.get("HookState") == "retrying" else None

    described, attributes = await eventually(retrying)
    assert attributes["HookTenant"] == row.tenant_id
    assert attributes["HookEndpoint"] == endpoint
    assert attributes["HookEventType"] == "order.invoice.paid"
    summary = await described.static_summary()
    assert summary is not None
    assert summary.startswith("order.invoice.paid → http://127.0.0.1")
    assert "private" not in summary


async def test_delivery_that_fails_for_good_at_once_is_found_by_its_search_attributes(
    stack: Stack,
) -> None:
    endpoint = await stack.endpoint("/status/410")
    delivery = await stack.deliver(endpoint)
    row = await stack.until_status(delivery, "gone")
    await stack.until_closed(delivery)
    query = (
        f'HookTenant="{row.tenant_id}" AND HookEndpoint="{endpoint}" AND '
        'HookEventType="order.invoice.paid" AND ExecutionStatus="Failed"'
    )

    async def found() -> list[str]:
        return [one.id async for one in stack.client.list_workflows(query)]

    assert await eventually(found) == [workflow_id(delivery)]


async def test_delivery_that_succeeds_at_once_sets_no_search_attributes(stack: Stack) -> None:
    delivery = await stack.deliver(await stack.endpoint("/ok"))
    await stack.until_closed(delivery)
    history = await stack.workflow(delivery).fetch_history()
    assert not any(event.HasField(_UPSERTED) for event in history.events)
    described = await stack.workflow(delivery).describe()
    ours = {key.name for key in SEARCH_ATTRIBUTES}
    assert ours.isdisjoint(pair.key.name for pair in described.typed_search_attributes)


async def test_bodies_and_secrets_stay_out_of_history(stack: Stack) -> None:
    delivery = await stack.deliver(
        await stack.endpoint("/echo", plan=QUICK), data={"card": "4242-body-of-the-event"}
    )
    await stack.until_status(delivery, "delivered")
    await stack.until_closed(delivery)

    history = await stack.workflow(delivery).fetch_history()

    stored = b"".join(event.SerializeToString() for event in history.events)
    assert delivery.encode() in stored
    for private in ("4242-body-of-the-event", SECRET, SECRET.removeprefix("whsec_")):
        assert private.encode() not in stored

"""What Temporal shows of a delivery: where it stands and what it is, never its body or a secret."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.delivery.conftest import Stack, eventually
from tests.integration.delivery.plans import PATIENT, QUICK
from tests.seed import SECRET

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]


async def test_the_query_tells_where_a_delivery_stands(stack: Stack) -> None:
    delivery = await stack.deliver(await stack.endpoint("/status/503", plan=PATIENT))
    row = await stack.until_status(delivery, "retrying")

    now = await stack.state(delivery)

    assert (now.status, now.attempts, now.retries, now.retries_planned) == ("retrying", 1, 0, 2)
    assert now.next_attempt_at is not None
    assert abs((now.next_attempt_at - row.next_attempt_at).total_seconds()) < 2
    assert "503" in (now.last_error or "")


async def test_search_attributes_and_details_say_what_a_delivery_is(stack: Stack) -> None:
    endpoint = await stack.endpoint("/status/500?token=private", plan=PATIENT)
    delivery = await stack.deliver(endpoint)
    row = await stack.until_status(delivery, "retrying")

    async def retrying() -> Any:
        # the row is first: the workflow hears of it after the commit
        described = await stack.workflow(delivery).describe()
        pairs = described.typed_search_attributes
        attributes = {pair.key.name: pair.value for pair in pairs}
        return (described, attributes) if attributes["HookState"] == "retrying" else None

    described, attributes = await eventually(retrying)
    assert attributes["HookTenant"] == row.tenant_id
    assert attributes["HookEndpoint"] == endpoint
    assert attributes["HookEventType"] == "order.invoice.paid"
    summary = await described.static_summary()
    assert summary is not None
    assert summary.startswith("order.invoice.paid → http://127.0.0.1")
    assert "private" not in summary


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

"""Deliveries with the payload `mapped`: what the receiver gets, and what becomes of a failure."""

from __future__ import annotations

import json
from typing import Any

import pytest
from standardwebhooks import Webhook

from hookfast.deliveries.outcome import Reason
from hookfast.storage.endpoints import endpoint_state
from tests.integration.delivery.circuits import ON_REQUEST, broken, hold, until_circuit
from tests.integration.delivery.conftest import Stack
from tests.integration.delivery.platform import Platform
from tests.support.api_client import Json
from tests.support.seed import EVENT_TYPE

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]

SLACK = "{text: join(' ', ['Invoice', data.invoice_id, 'of', to_string(data.amount), 'is paid'])}"


async def subscribe(
    platform: Platform, path: str, mapping: str, **members: Any
) -> tuple[Json, str]:
    """Create an endpoint with a mapped subscription; return both (the subscription's id)."""
    endpoint = await platform.endpoint(path, events=[], **members)
    form = {"endpoint_id": endpoint["id"], "events": ["**"], "payload": "mapped"}
    answer = await platform.client.post("/subscriptions", json=form | {"mapping": mapping})
    assert answer.status_code == 201, answer.text
    return endpoint, answer.json()["id"]


async def emit_text(platform: Platform, data: str) -> str:
    """Emit an event whose data is this JSON text, and return the id of its delivery."""
    head = json.dumps({"type": EVENT_TYPE, "tenant_id": platform.tenant_id})[:-1]
    headers = {"content-type": "application/json"}
    body = f'{head},"data":{data}}}'.encode()
    answer = await platform.client.post("/events", content=body, headers=headers)
    assert answer.status_code == 202, answer.text
    listed = await platform.client.get(f"/events/{answer.json()['id']}/deliveries")
    return str(listed.json()["data"][0]["id"])


@pytest.mark.parametrize("first_attempts", ["workflow", "batch"], scope="module")
async def test_receiver_gets_the_mapped_body_signed_and_a_failure_can_be_corrected_and_resent(
    platform: Platform, stack: Stack
) -> None:
    client = platform.client
    endpoint, subscription = await subscribe(platform, "/ok", SLACK)
    delivery = await emit_text(platform, '{"invoice_id":"in_7","amount":12.50}')
    await stack.until_status(delivery, "delivered")
    [request] = platform.receiver.requests
    assert request.body == b'{"text":"Invoice in_7 of 12.50 is paid"}'
    assert request.headers["content-type"] == "application/json"
    assert request.headers["webhook-id"] == request.headers["x-hook-id"] == delivery
    assert request.headers["x-hook-topic"] == EVENT_TYPE
    Webhook(endpoint["secret"]).verify(request.body, dict(request.headers))

    # without its invoice_id, the event has no body: nothing is sent, and the owner sees why
    failed = await emit_text(platform, '{"amount":1,"private":"4711"}')
    row = await stack.until_status(failed, "dead")
    assert (row.reason, row.attempts) == (Reason.MAPPING_FAILED, 0)
    assert (
        "join() takes an array of strings, and was given an array with a string and null"
        in row.last_error
    )
    assert "4711" not in row.last_error
    assert len(platform.receiver.requests) == 1
    health = (await client.get(f"/endpoints/{endpoint['id']}/health")).json()
    assert (health["consecutive_failures"], health["circuit"]["state"]) == (0, "closed")
    mine = {"reason": "mapping_failed", "tenant_id": platform.tenant_id}
    dead = await client.get("/dead-letters", params=mine)
    assert [one["id"] for one in dead.json()["data"]] == [failed]

    answer = await client.post(f"/deliveries/{failed}/resend")
    assert answer.status_code == 202, answer.text
    row = await stack.until(failed, lambda row: row.status == "dead" and row.round == 1)
    corrected = {"mapping": "{text: not_null(data.invoice_id, 'no invoice')}"}
    answer = await client.patch(f"/subscriptions/{subscription}", json=corrected)
    assert answer.status_code == 200, answer.text
    await client.post(f"/deliveries/{failed}/resend")
    await stack.until_status(failed, "delivered")
    assert platform.receiver.requests[-1].body == b'{"text":"no invoice"}'


async def test_a_mapping_outlives_its_subscription_and_another_payload(
    platform: Platform, stack: Stack
) -> None:
    client = platform.client
    _, subscription = await subscribe(
        platform, "/status/500", "{n: data.n}", retry_plan={"delays_seconds": [0.05]}
    )
    delivery = await emit_text(platform, '{"n":1}')
    await stack.until_status(delivery, "dead")
    platform.receiver.routes["/status/500"] = "/ok"

    answer = await client.patch(f"/subscriptions/{subscription}", json={"payload": "full"})
    assert answer.json()["mapping"] is None, answer.text
    await client.post(f"/deliveries/{delivery}/resend")
    await stack.until_status(delivery, "delivered")
    assert platform.receiver.requests[-1].body == b'{"n":1}'

    await client.delete(f"/subscriptions/{subscription}")
    sent = len(platform.receiver.requests)
    await client.post(f"/deliveries/{delivery}/resend")
    await platform.receiver.wait_for(sent + 1)
    assert platform.receiver.requests[-1].body == b'{"n":1}'


async def test_a_failed_mapping_gives_its_slot_back(platform: Platform, stack: Stack) -> None:
    await subscribe(platform, "/ok", "data.n", max_in_flight=1)
    for _ in range(3):
        await stack.until_status(await emit_text(platform, "{}"), "dead")
    delivery = await emit_text(platform, '{"n":[1.0,1E2,12345678901234567890]}')
    row = await stack.until_status(delivery, "delivered")
    assert row.attempts == 1
    assert platform.receiver.requests[-1].body == b"[1.0,1E2,12345678901234567890]"


async def test_a_held_delivery_without_a_body_does_not_keep_the_circuit_open(stack: Stack) -> None:
    endpoint, _ = await broken(stack, circuit=ON_REQUEST)
    failing = await stack.deliver(endpoint, payload="mapped")  # its mapping is missing
    await stack.until_status(failing, "held")
    [other] = await hold(stack, endpoint)
    stack.receiver.routes["/hook"] = "/ok"
    await stack.change_endpoint(endpoint_state.probe_now, endpoint)
    await stack.until_status(other, "delivered")
    await until_circuit(stack, endpoint, "closed")
    row = await stack.row(failing)
    assert (row.status, row.reason) == ("dead", Reason.MAPPING_FAILED)

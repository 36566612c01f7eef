"""A request to a source is delivered as an event, as a link to the event, or byte for byte."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import Mock
from urllib.parse import quote_plus

import httpx2
import pytest

from hookfast.clock import utc_now
from hookfast.inbox import provider, verified_request
from hookfast.inbox.samples import sample
from hookfast.receiver import Verifier
from tests.integration.api.inbound import SECRET, post, signed
from tests.integration.delivery.conftest import Stack
from tests.support.api_client import Json
from tests.support.receiver import Request

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]


async def create(client: httpx2.AsyncClient, path: str, **form: Any) -> Json:
    answer = await client.post(path, json=form)
    assert answer.status_code == 201, answer.text
    document: Json = answer.json()
    return document


async def create_source(
    client: httpx2.AsyncClient, stack: Stack, *styles: str
) -> tuple[str, str, str]:
    """Create a tenant with a source, and an endpoint for each payload style; return the ids of the
    tenant and the source, and the last endpoint's secret."""
    tenant = (await create(client, "/tenants", name="Acme"))["id"]
    source = await create(
        client, "/sources", tenant_id=tenant, name="x", provider="github", secrets=[SECRET]
    )
    secret = ""
    for style in styles:
        endpoint = await create(
            client,
            "/endpoints",
            tenant_id=tenant,
            url=stack.receiver.url(f"/{style}"),
            verification="none",
            headers={"X-GitHub-Hook-ID": "of the endpoint"},
        )
        form = {"endpoint_id": endpoint["id"], "events": ["**"], "payload": style}
        await create(client, "/subscriptions", **form)
        secret = endpoint["secret"]
    return tenant, source["id"], secret


def by_path(stack: Stack) -> dict[str, Request]:
    return {request.path: request for request in stack.receiver.requests}


async def test_request_to_a_source_is_delivered_in_all_three_payload_styles(
    client: httpx2.AsyncClient, stack: Stack
) -> None:
    _, source, secret = await create_source(client, stack, "full", "thin", "raw")
    url = f"http://hookfast.test/in/{source}"
    github = provider("github")
    request = sample("github.push", provider=github, secret=SECRET, now=utc_now(), url=url)
    more = {
        "Authorization": "Bearer hush",
        "Cookie": "hush=1",
        "User-Agent": "GitHub-Hookshot/1",
        "X-GitHub-Hook-ID": "of the request",
        "X-Hook-Topic": "forged",
    }
    answer = await post(client, source, {**request.headers, **more}, request.body)
    assert answer.status_code == 202, answer.text
    await stack.receiver.wait_for(3)

    got = by_path(stack)
    full, thin, raw = got["/full"], got["/thin"], got["/raw"]
    event = json.loads(full.body)
    assert (event["id"], event["type"]) == (answer.json()["event_id"], "github.push.received")
    assert request.body in full.body  # its data, byte for byte
    assert json.loads(thin.body)["data"]["url"].endswith(f"/v1/events/{event['id']}")

    assert raw.body == request.body
    assert raw.headers["content-type"] == "application/json"
    assert raw.headers["x-github-event"] == "push"
    assert raw.headers["x-github-delivery"] == request.headers["X-GitHub-Delivery"]
    assert raw.headers["x-github-hook-id"] == "of the endpoint"
    assert raw.headers["x-hook-topic"] == "github.push.received"
    assert raw.headers["user-agent"].startswith("Hookfast/")
    for gone in ("authorization", "cookie", "x-hub-signature-256"):
        assert gone not in raw.headers
    assert "hush" not in repr(raw.raw_headers)
    await stack.until_status(str(raw.message_id), "delivered")
    [attempt] = (await client.get(f"/deliveries/{raw.message_id}")).json()["attempts"]
    shown = dict(attempt["request_headers"])
    assert (shown["x-github-event"], shown["X-GitHub-Hook-ID"]) == ("push", "***")
    Verifier(secret).verify(raw.headers, raw.body)


async def test_raw_payload_of_a_form_is_the_same_form(
    client: httpx2.AsyncClient, stack: Stack
) -> None:
    _, source, _ = await create_source(client, stack, "full", "raw")
    body = f"payload={quote_plus(json.dumps({'action': 'opened', 'n': 1.5}))}".encode()
    form = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
    headers, _ = signed(body, event="issues")
    answer = await post(client, source, headers | form, body)
    assert answer.json()["event_type"] == "github.issues.opened"
    await stack.receiver.wait_for(2)

    got = by_path(stack)
    assert got["/raw"].body == body
    assert got["/raw"].headers["content-type"] == form["Content-Type"]
    assert json.loads(got["/full"].body)["data"] == {"action": "opened", "n": 1.5}


async def test_a_damaged_request_fails_the_attempts_that_forward_it(
    client: httpx2.AsyncClient, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, source, _ = await create_source(client, stack, "full", "raw")
    damaged = Mock(return_value=[["a name without a value"]])
    monkeypatch.setattr(verified_request, "kept_headers", damaged)
    headers, body = signed(b"{}", event="push")
    answer = await post(client, source, headers, body)
    await stack.receiver.wait_for(1)
    event = answer.json()["event_id"]
    deliveries = (await client.get(f"/events/{event}/deliveries")).json()["data"]
    for one in deliveries:
        await stack.until_status(one["id"], "delivered", "retrying")
    attempts = (await client.get("/attempts", params={"event_id": event})).json()["data"]
    assert {one["result"] for one in attempts} == {"success", "internal"}
    assert list(by_path(stack)) == ["/full"]


async def test_raw_payload_of_an_emitted_event_is_the_full_one(
    client: httpx2.AsyncClient, stack: Stack
) -> None:
    tenant, _, _ = await create_source(client, stack, "raw")
    await client.put("/event-types/order.invoice.paid", json={})
    form = {"tenant_id": tenant, "type": "order.invoice.paid", "data": [1]}
    assert (await client.post("/events", json=form)).status_code == 202
    await stack.receiver.wait_for(1)
    assert json.loads(stack.receiver.requests[0].body)["data"] == [1]

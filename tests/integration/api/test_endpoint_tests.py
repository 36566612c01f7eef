"""Tests of an endpoint: edited data, the request and the answer, and the tests that are kept."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import ssl
from typing import Any

import httpx2
import pytest
from sqlalchemy.exc import OperationalError

from api.context.context import Context
from api.routes import endpoint_tests
from hookfast.errors import Unavailable
from hookfast.sender.authorized import AuthorizedRequests
from hookfast.storage.deliveries import sent_tests
from hookfast.storage.deliveries.outgoing import OutgoingLoader
from tests.support.api_client import Json, KeyClient, Make, MakeEventType, assert_problem
from tests.support.receiver import Receiver

pytestmark = pytest.mark.anyio

TYPE = "order.invoice.paid"
SCHEMA = {
    "type": "object",
    "required": ["amount"],
    "properties": {"amount": {"type": "integer", "minimum": 0}, "note": {"type": "string"}},
    "additionalProperties": False,
}


@pytest.fixture
async def tenant_id(make_tenant: Make, make_event_type: MakeEventType) -> str:
    await make_event_type(TYPE)
    return str((await make_tenant())["id"])


@pytest.fixture
async def endpoint(make_endpoint: Make, receiver: Receiver, tenant_id: str) -> Json:
    """An endpoint with the path `/hook` and a custom header."""
    return await make_endpoint(
        tenant_id=tenant_id, url=receiver.url("/hook"), headers={"X-Token": "hush"}
    )


async def send(client: httpx2.AsyncClient, endpoint: Json, body: str | Json) -> Json:
    """Send a test, with this JSON text or value, and return the answer."""
    content = body if isinstance(body, str) else json.dumps(body)
    answer = await client.post(
        f"/endpoints/{endpoint['id']}/test",
        content=content,
        headers={"Content-Type": "application/json"},
    )
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def test_test_request_is_signed_like_a_delivery_and_marked(
    client: httpx2.AsyncClient, receiver: Receiver, endpoint: Json, tenant_id: str
) -> None:
    answer = await client.post(f"/endpoints/{endpoint['id']}/test", json={"type": TYPE})
    assert answer.status_code == 200, answer.text
    view = answer.json()
    assert (view["succeeded"], view["result"], view["status_code"]) == (True, "success", 200)
    assert (view["error"], view["response_excerpt"], view["type"]) == (None, "ok", TYPE)
    [request] = receiver.requests
    assert request.headers["x-hook-test"] == "true"
    assert request.headers["x-token"] == "hush"
    assert request.headers["x-hook-id"] == view["message_id"]
    assert request.headers["x-hook-topic"] == TYPE
    signed = request.headers["x-hook-timestamp"].encode() + b"." + request.body
    key = base64.b64decode(endpoint["secret"].removeprefix("whsec_"))
    digest = hmac.new(key, signed, hashlib.sha256).hexdigest()
    assert request.headers["x-hook-signature"] == f"sha256={digest}"
    event = json.loads(request.body)
    assert (event["type"], event["tenant_id"], event["data"]) == (TYPE, tenant_id, {"test": True})


async def test_test_is_no_event_and_no_delivery(
    client: httpx2.AsyncClient, receiver: Receiver, endpoint: Json
) -> None:
    receiver.routes["/hook"] = "/status/410"  # would disable it for a delivery
    answer = await client.post(f"/endpoints/{endpoint['id']}/test", json={"type": TYPE})
    view = answer.json()
    assert (view["succeeded"], view["status_code"]) == (False, 410)
    assert "hush" not in answer.text
    for path in ("/events", "/deliveries", "/dead-letters"):
        assert (await client.get(path)).json()["data"] == []
    assert (await client.get(f"/deliveries/{view['message_id']}")).status_code == 404
    health = (await client.get(f"/endpoints/{endpoint['id']}/health")).json()
    assert (health["state"], health["consecutive_failures"]) == ("enabled", 0)


@pytest.mark.parametrize("action", ["pause", "disable"])
async def test_paused_or_disabled_endpoint_can_be_tested(
    client: httpx2.AsyncClient, receiver: Receiver, endpoint: Json, action: str
) -> None:
    assert (await client.post(f"/endpoints/{endpoint['id']}/{action}")).status_code == 200
    answer = await client.post(f"/endpoints/{endpoint['id']}/test", json={"type": TYPE})
    assert answer.json()["succeeded"]
    assert len(receiver.requests) == 1


async def test_sample_is_the_first_example_of_the_schema(
    client: httpx2.AsyncClient,
    receiver: Receiver,
    endpoint: Json,
    make_event_type: MakeEventType,
) -> None:
    example = {"invoice_id": "in_1", "note": "grüße"}
    await make_event_type("order.invoice.due", schema={"examples": [example, {}]})
    path = f"/endpoints/{endpoint['id']}/test"
    await client.post(path, json={"type": "order.invoice.due"})
    assert json.loads(receiver.requests[0].body)["data"] == example


@pytest.mark.parametrize(
    ("body", "code", "pointer"),
    [
        ({"type": "no.such.type"}, "unknown_event_type", "/type"),
        ({"type": "no nonsense"}, "invalid_event_type", "/type"),
        ({}, "invalid_input", "/type"),
        ({"type": TYPE, "mapping": "data"}, "invalid_input", "/mapping"),
        ({"type": TYPE, "url": "http://127.0.0.1:4/"}, "invalid_input", "/url"),
    ],
)
async def test_invalid_test_is_rejected_and_nothing_is_sent(
    client: httpx2.AsyncClient,
    receiver: Receiver,
    endpoint: Json,
    body: Json,
    code: str,
    pointer: str,
) -> None:
    answer = await client.post(f"/endpoints/{endpoint['id']}/test", json=body)
    assert_problem(answer, 422, code=code, pointer=pointer)
    assert receiver.requests == []


@pytest.mark.parametrize(
    ("path", "result"),
    [
        ("/close", "reset"),
        ("/garbage", "protocol"),
        ("/redirect", "status"),
        ("/slow/30", "timeout"),
    ],
)
async def test_test_of_a_hostile_receiver_ends_like_an_attempt(
    client: httpx2.AsyncClient,
    receiver: Receiver,
    make_endpoint: Make,
    tenant_id: str,
    path: str,
    result: str,
) -> None:
    endpoint = await make_endpoint(tenant_id=tenant_id, url=receiver.url(path), timeout_seconds=1.0)
    answer = await client.post(f"/endpoints/{endpoint['id']}/test", json={"type": TYPE})
    assert answer.status_code == 200
    assert answer.json()["result"] == result
    assert answer.json()["error"]


async def test_edited_data_is_sent_byte_for_byte_and_kept_with_the_answer(
    client: httpx2.AsyncClient, receiver: Receiver, endpoint: Json, tenant_id: str
) -> None:
    receiver.routes["/hook"] = "/cookie"
    data = '{ "n": 12.50, "big": 12345678901234567890123, "text": "grüß\\u20ac" }'
    view = await send(client, endpoint, f'{{"type":"{TYPE}","data":{data}}}')
    [request] = receiver.requests
    assert data in request.body.decode()
    assert view["body"] == request.body.decode()
    assert view["kept"] is True
    assert (view["method"], view["url"]) == ("POST", receiver.url("/hook"))
    sent = dict(view["request_headers"])
    assert sent["X-Hook-Test"] == "true"
    assert sent["webhook-id"] == view["message_id"]
    assert sent["X-Token"] == sent["X-Hook-Signature"] == sent["webhook-signature"] == "***"
    assert dict(view["response_headers"])["Set-Cookie"] == "***"
    assert "hush" not in json.dumps(view)

    kept = (await client.get(f"/tests/{view['message_id']}")).json()
    assert (kept["tenant_id"], kept["endpoint_id"]) == (tenant_id, endpoint["id"])
    assert (kept["id"], kept["event_type"]) == (view["message_id"], view["type"])
    assert kept["request_body"] == view["body"]
    for name in (
        *("payload", "method", "url", "request_headers", "started_at", "duration_ms"),
        *("result", "status_code", "error", "response_headers", "response_excerpt"),
    ):
        assert kept[name] == view[name], name
    listed = (await client.get("/tests", params={"endpoint_id": endpoint["id"]})).json()
    assert listed["next_cursor"] is None
    [one] = listed["data"]
    assert one == {name: kept[name] for name in one}
    assert "request_body" not in one


async def test_edited_data_is_checked_like_an_events(
    client: httpx2.AsyncClient,
    receiver: Receiver,
    endpoint: Json,
    make_event_type: MakeEventType,
) -> None:
    await make_event_type("order.amount.set", schema=SCHEMA)
    for data, code, pointer in (
        ('{"amount": -1}', "schema_violation", "/data/amount"),
        ('{"amount": 1, "x": 1}', "schema_violation", "/data"),
        ("null", "schema_violation", "/data"),
        ('{"amount": 1, "amount": 2}', "invalid_json", ""),
        ('{"amount": NaN}', "invalid_json", ""),
        ('{"amount": 1, "note": "\\ud800"}', "invalid_json", ""),
        ('{"amount": 1, "note": "\\u0000"}', "invalid_json", ""),
        ("[" * 64 + "]" * 64, "invalid_json", ""),
    ):
        answer = await client.post(
            f"/endpoints/{endpoint['id']}/test",
            content=f'{{"type":"order.amount.set","data":{data}}}',
            headers={"Content-Type": "application/json"},
        )
        assert_problem(answer, 422, code=code, pointer=pointer)
    assert receiver.requests == []
    assert (await client.get("/tests")).json()["data"] == []


async def test_data_over_the_size_of_events_is_rejected(
    client: httpx2.AsyncClient, context: Context, receiver: Receiver, endpoint: Json
) -> None:
    path, most = f"/endpoints/{endpoint['id']}/test", context.settings.max_event_bytes
    answer = await client.post(path, json={"type": TYPE, "data": "x" * most})
    assert_problem(answer, 413, code="too_large")
    assert receiver.requests == []
    view = await send(client, endpoint, {"type": TYPE, "data": "x" * (most - 100)})
    kept = (await client.get(f"/tests/{view['message_id']}")).json()
    assert len(kept["request_body"]) > most - 100


async def test_sample_has_what_a_test_sends_and_names_its_origin(
    client: httpx2.AsyncClient,
    receiver: Receiver,
    endpoint: Json,
    make_event_type: MakeEventType,
) -> None:
    await make_event_type("order.amount.set", schema=SCHEMA)
    await make_event_type("order.amount.seen", schema={"examples": [{"amount": 7}]} | SCHEMA)
    await make_event_type("github.push.received")
    for name, origin, data in (
        (TYPE, "default", {"test": True}),
        ("order.amount.set", "schema", {"amount": 0, "note": "text"}),
        ("order.amount.seen", "example", {"amount": 7}),
        ("github.push.received", "provider", None),
    ):
        sample = (await client.get(f"/event-types/{name}/sample")).json()
        assert (sample["type"], sample["origin"]) == (name, origin)
        await send(client, endpoint, {"type": name})
        sent = json.loads(receiver.requests[-1].body)["data"]
        if data is None:
            assert sample["data"].keys() == sent.keys() >= {"commits"}
        else:
            assert sample["data"] == sent == data
    assert_problem(await client.get("/event-types/no.such/sample"), 404, code="not_found")


@pytest.mark.both_databases
async def test_answer_that_no_database_could_store_is_kept_as_text(
    client: httpx2.AsyncClient, receiver: Receiver, endpoint: Json
) -> None:
    for path in ("/raw/%FF%00%FEA", "/endless-body", "/garbage", "/gzip-bomb", "/huge-header"):
        receiver.routes["/hook"] = path
        view = await send(client, endpoint, {"type": TYPE})
        assert view["kept"], path
        kept = (await client.get(f"/tests/{view['message_id']}")).json()
        assert kept["response_excerpt"] == view["response_excerpt"]
        assert kept["response_headers"] == view["response_headers"]
        text = kept["response_excerpt"] or ""
        assert len(text) <= 2048
        if path.startswith("/raw"):
            assert text == "\ufffd\ufffd\ufffdA"


async def test_polled_endpoint_cannot_be_tested(client: httpx2.AsyncClient, tenant_id: str) -> None:
    polled = await client.post("/endpoints", json={"tenant_id": tenant_id, "mode": "poll"})
    path = f"/endpoints/{polled.json()['id']}/test"
    for body in ({"type": TYPE}, {"type": TYPE, "data": {}}):
        assert (await client.post(path, json=body)).status_code == 409
    assert (await client.get("/tests")).json()["data"] == []


@pytest.mark.both_databases
async def test_tests_are_listed_by_page_and_filter_newest_first(
    client: httpx2.AsyncClient,
    receiver: Receiver,
    endpoint: Json,
    make_endpoint: Make,
    make_event_type: MakeEventType,
    tenant_id: str,
) -> None:
    await make_event_type("order.refund.paid")
    failing = await make_endpoint(tenant_id=tenant_id, url=receiver.url("/status/503"))
    ids = []
    for one, name in ((endpoint, TYPE), (failing, TYPE), (endpoint, "order.refund.paid")):
        ids.append((await send(client, one, {"type": name}))["message_id"])
    first, failed, last = ids

    async def found(**params: Any) -> list[str]:
        answer = await client.get("/tests", params=params)
        assert answer.status_code == 200, answer.text
        return [one["id"] for one in answer.json()["data"]]

    assert await found() == [last, failed, first]
    assert await found(tenant_id=tenant_id) == [last, failed, first]
    assert await found(endpoint_id=endpoint["id"]) == [last, first]
    assert await found(event_type=TYPE) == [failed, first]
    assert await found(succeeded="false") == await found(answer="5xx") == [failed]
    assert await found(succeeded="true", endpoint_id=endpoint["id"]) == [last, first]
    assert await found(until="2020-01-01T00:00:00Z") == []
    assert await found(since="2020-01-01T00:00:00Z", limit=1) == [last]
    page = (await client.get("/tests", params={"limit": 2})).json()
    assert [one["id"] for one in page["data"]] == [last, failed]
    assert await found(limit=2, cursor=page["next_cursor"]) == [first]
    for wrong in ({"answer": "bad"}, {"event_type": "No"}, {"succeeded": "maybe"}, {"x": "1"}):
        assert (await client.get("/tests", params=wrong)).status_code == 422, wrong


async def test_other_tenants_and_narrow_keys_get_no_test(
    client: httpx2.AsyncClient,
    receiver: Receiver,
    endpoint: Json,
    make_tenant: Make,
    key_client: KeyClient,
) -> None:
    view = await send(client, endpoint, {"type": TYPE})
    path, body = f"/endpoints/{endpoint['id']}/test", {"type": TYPE, "data": {"forged": True}}
    async with key_client((await make_tenant())["id"]) as stranger:
        assert_problem(await stranger.post(path, json=body), 404, code="not_found")
        answer = await stranger.get(f"/tests/{view['message_id']}")
        assert_problem(answer, 404, code="not_found")
        assert (await stranger.get("/tests")).json()["data"] == []
        params = {"endpoint_id": endpoint["id"]}
        assert (await stranger.get("/tests", params=params)).json()["data"] == []
        params = {"tenant_id": endpoint["tenant_id"]}
        assert (await stranger.get("/tests", params=params)).status_code == 404
    async with key_client(endpoint["tenant_id"], scope="tenant:read") as reader:
        assert (await reader.post(path, json=body)).status_code == 403
        assert (await reader.get(f"/tests/{view['message_id']}")).status_code == 200
    async with key_client(endpoint["tenant_id"], scope="emit") as emitter:
        assert (await emitter.post(path, json=body)).status_code == 403
        assert (await emitter.get("/tests")).status_code == 403
    assert len(receiver.requests) == 1


@pytest.mark.both_databases
async def test_tests_are_deleted_with_their_endpoint_and_tenant(
    client: httpx2.AsyncClient, receiver: Receiver, endpoint: Json, make_endpoint: Make
) -> None:
    tenant_id = endpoint["tenant_id"]
    other = await make_endpoint(tenant_id=tenant_id, url=receiver.url("/hook"))
    views = [await send(client, one, {"type": TYPE}) for one in (endpoint, other)]
    await client.delete(f"/endpoints/{endpoint['id']}")
    assert [one["endpoint_id"] for one in (await client.get("/tests")).json()["data"]] == [
        other["id"]
    ]
    await client.delete(f"/tenants/{tenant_id}")
    for view in views:
        assert (await client.get(f"/tests/{view['message_id']}")).status_code == 404


async def test_test_of_an_endpoint_that_is_deleted_meanwhile_is_not_kept(
    client: httpx2.AsyncClient, receiver: Receiver, endpoint: Json
) -> None:
    receiver.routes["/hook"] = "/slow/0.5"
    sending = asyncio.create_task(send(client, endpoint, {"type": TYPE}))
    await receiver.wait_for(1)
    assert (await client.delete(f"/endpoints/{endpoint['id']}")).status_code == 204
    view = await sending
    assert (view["kept"], view["succeeded"]) == (False, True)
    assert (await client.get("/tests")).json()["data"] == []


@pytest.mark.parametrize("step", ["load_endpoint", "outgoing_request", "send"])
async def test_a_test_whose_request_cannot_be_made_has_the_reason_as_its_result(
    client: httpx2.AsyncClient,
    context: Context,
    endpoint: Json,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise ssl.SSLError("s3cret")  # an OSError

    match step:
        case "load_endpoint":
            monkeypatch.setattr(OutgoingLoader, "load_endpoint", fail)
        case "outgoing_request":
            monkeypatch.setattr(endpoint_tests, "outgoing_request", fail)
        case "send":
            monkeypatch.setattr(AuthorizedRequests, "send", fail)
    view = await send(client, endpoint, {"type": TYPE})
    assert (view["result"], view["succeeded"], view["status_code"]) == ("internal", False, None)
    assert view["error"].startswith("The request could not be made: Hookfast failed (SSLError).")
    assert view["kept"]


@pytest.mark.both_databases
async def test_an_endpoint_whose_secrets_cannot_be_opened_says_so_in_tests_and_verifications(
    client: httpx2.AsyncClient,
    context: Context,
    make_endpoint: Make,
    tenant_id: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    endpoint = await make_endpoint(
        tenant_id=tenant_id,
        url="https://127.0.0.1:4/",
        authentication={"kind": "bearer", "token": "t0ken"},
    )
    monkeypatch.setattr(context.keyring, "_ciphers", {})  # as with the keys of another server
    view = await send(client, endpoint, {"type": TYPE})
    assert view["result"] == "internal"
    assert f"decrypts the secret of {endpoint['id']}; append the key" in view["error"]
    answer = await client.post(f"/endpoints/{endpoint['id']}/verify")
    assert_problem(answer, 422, code="verification_failed", pointer="/url")


@pytest.mark.parametrize(
    "error",
    [OperationalError("INSERT", {}, Exception("full")), Unavailable("The database is away.")],
)
async def test_answer_is_returned_even_if_it_cannot_be_stored(
    client: httpx2.AsyncClient,
    receiver: Receiver,
    endpoint: Json,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
) -> None:
    async def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(sent_tests, "add", fail)
    view = await send(client, endpoint, {"type": TYPE})
    assert (view["kept"], view["succeeded"], view["status_code"]) == (False, True, 200)
    assert len(receiver.requests) == 1


@pytest.mark.both_databases
async def test_only_the_newest_tests_of_an_endpoint_and_of_a_tenant_are_kept(
    client: httpx2.AsyncClient,
    receiver: Receiver,
    endpoint: Json,
    make_endpoint: Make,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sent_tests, "KEPT_PER_ENDPOINT", 2)
    monkeypatch.setattr(sent_tests, "KEPT_PER_TENANT", 3)
    other = await make_endpoint(tenant_id=endpoint["tenant_id"], url=receiver.url("/hook"))
    ids = [(await send(client, endpoint, {"type": TYPE}))["message_id"] for _ in range(3)]

    async def kept() -> list[str]:
        return [one["id"] for one in (await client.get("/tests")).json()["data"]]

    assert await kept() == ids[:0:-1]
    # at once, of two endpoints: none waits for the other for ever
    views = await asyncio.gather(
        *(send(client, one, {"type": TYPE}) for one in (endpoint, other) * 3)
    )
    assert all(view["kept"] for view in views)
    newest = (await send(client, other, {"type": TYPE}))["message_id"]
    left = await kept()
    assert (left[0], len(left)) == (newest, 3)


async def test_test_without_kept_headers_says_so(
    client: httpx2.AsyncClient,
    context: Context,
    endpoint: Json,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(context.sender, "_header_bytes", 0)  # HOOKFAST_ATTEMPT_HEADER_BYTES=0
    view = await send(client, endpoint, {"type": TYPE})
    assert (view["request_headers"], view["response_headers"]) == (None, None)
    assert view["url"] == endpoint["url"]

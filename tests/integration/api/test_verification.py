"""URL verification through the API: nothing is stored or changed unless the receiver agrees."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from ipaddress import ip_network

import httpx2
import pytest

from hookfast.settings.settings import Settings
from tests.support.api_client import (
    OPERATOR_KEY,
    Json,
    KeyClient,
    Make,
    assert_problem,
    client_with,
    endpoint_maker,
    running_app,
)
from tests.support.receiver import Receiver

pytestmark = pytest.mark.anyio


@pytest.fixture
async def tenant_id(make_tenant: Make) -> str:
    return str((await make_tenant())["id"])


@pytest.fixture
async def verified(make_endpoint: Make, receiver: Receiver, tenant_id: str) -> Json:
    """An endpoint that was verified by header for the topic `a.b.c`."""
    endpoint = await make_endpoint(
        tenant_id=tenant_id,
        url=receiver.url("/challenge"),
        verification="header",
        events=["a.b.c"],
    )
    receiver.requests.clear()
    return endpoint


@pytest.fixture
async def strict_client(settings: Settings) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a server with the default settings: only https and verified endpoints."""
    strict = settings.model_copy(update={"allow_unverified": False, "allow_http": False})
    async with running_app(strict) as app, client_with(app, OPERATOR_KEY) as client:
        yield client


def _challenges(receiver: Receiver) -> list[str]:
    return [request.headers["x-hook-challenge"] for request in receiver.requests]


async def test_every_topic_is_verified_before_an_endpoint_is_created(
    make_endpoint: Make, receiver: Receiver, tenant_id: str
) -> None:
    await make_endpoint(
        tenant_id=tenant_id,
        url=receiver.url("/challenge"),
        verification="header",
        events=["order.invoice.paid", "user.**"],
    )
    assert _challenges(receiver) == [f"{tenant_id}.order.invoice.paid", f"{tenant_id}.user.**"]
    assert {request.method for request in receiver.requests} == {"GET"}


async def test_header_verification_is_the_default_even_without_topics(
    client: httpx2.AsyncClient, receiver: Receiver, tenant_id: str
) -> None:
    answer = await client.post(
        "/endpoints", json={"url": receiver.url("/challenge"), "tenant_id": tenant_id}
    )
    assert answer.status_code == 201
    assert answer.json()["verification"] == "header"
    assert _challenges(receiver) == [f"{tenant_id}.**"]


async def test_a_query_challenge_is_one_request(
    make_endpoint: Make, receiver: Receiver, tenant_id: str
) -> None:
    await make_endpoint(
        tenant_id=tenant_id,
        url=receiver.url("/challenge-query"),
        verification="query",
        events=["a.b.c", "d.e.f"],
    )
    assert len(receiver.requests) == 1


@pytest.mark.parametrize(
    ("mode", "path"),
    [
        ("header", "/ok"),
        ("header", "/status/404"),
        ("header", "/fixed-challenge/other"),
        ("header", "/redirect"),
        ("header", "/reset"),
        ("query", "/ok"),
        ("query", "/status/500"),
    ],
)
async def test_nothing_is_created_when_the_receiver_does_not_agree(
    client: httpx2.AsyncClient, receiver: Receiver, tenant_id: str, mode: str, path: str
) -> None:
    body = {
        "url": receiver.url(path),
        "tenant_id": tenant_id,
        "verification": mode,
        "events": ["a.b.c"],
    }
    answer = await client.post("/endpoints", json=body)
    assert_problem(answer, 422, code="verification_failed", pointer="/url")
    assert len(receiver.requests) == 1
    assert (await client.get("/endpoints")).json()["data"] == []
    assert (await client.get("/subscriptions")).json()["data"] == []


async def test_new_url_is_verified_for_every_topic_before_it_is_used(
    client: httpx2.AsyncClient, make_endpoint: Make, receiver: Receiver, tenant_id: str
) -> None:
    endpoint = await make_endpoint(
        tenant_id=tenant_id,
        url=receiver.url("/challenge"),
        verification="header",
        events=["a.b.c", "d.**"],
    )
    path = f"/endpoints/{endpoint['id']}"
    refused = await client.patch(path, json={"url": receiver.url("/ok"), "description": "new"})
    assert_problem(refused, 422, code="verification_failed", pointer="/url")
    unchanged = (await client.get(path)).json()
    assert (unchanged["url"], unchanged["description"]) == (endpoint["url"], "")
    receiver.requests.clear()
    accepted = await client.patch(path, json={"url": receiver.url("/challenge?v=2")})
    assert accepted.json()["url"] == receiver.url("/challenge?v=2")
    assert _challenges(receiver) == [f"{tenant_id}.a.b.c", f"{tenant_id}.d.**"]


async def test_other_changes_need_no_verification(
    client: httpx2.AsyncClient, make_endpoint: Make, receiver: Receiver, tenant_id: str
) -> None:
    endpoint = await make_endpoint(
        tenant_id=tenant_id, url=receiver.url("/challenge"), verification="header"
    )
    receiver.requests.clear()
    answer = await client.patch(f"/endpoints/{endpoint['id']}", json={"description": "new"})
    assert answer.status_code == 200
    assert receiver.requests == []


async def test_only_topics_new_to_the_endpoint_are_verified(
    client: httpx2.AsyncClient,
    make_subscription: Make,
    receiver: Receiver,
    tenant_id: str,
    verified: Json,
) -> None:
    second = await make_subscription(endpoint_id=verified["id"], events=["a.b.c", "d.e.f"])
    path = f"/subscriptions/{second['id']}"
    await client.patch(path, json={"events": ["d.e.f", "g.**"]})
    await client.patch(path, json={"active": False})
    assert _challenges(receiver) == [f"{tenant_id}.d.e.f", f"{tenant_id}.g.**"]


async def test_subscription_is_not_created_if_the_receiver_declines_its_topic(
    client: httpx2.AsyncClient,
    make_endpoint: Make,
    receiver: Receiver,
    tenant_id: str,
) -> None:
    url = receiver.url(f"/fixed-challenge/{tenant_id}.a.b.c")
    endpoint = await make_endpoint(
        tenant_id=tenant_id, url=url, verification="header", events=["a.b.c"]
    )
    body = {"endpoint_id": endpoint["id"], "events": ["d.e.f"]}
    answer = await client.post("/subscriptions", json=body)
    assert_problem(answer, 422, code="verification_failed", pointer="/url")
    path = f"/subscriptions/{endpoint['subscription']['id']}"
    refused = await client.patch(path, json={"events": ["d.e.f"]})
    assert_problem(refused, 422, code="verification_failed", pointer="/url")
    assert (await client.get(path)).json()["events"] == ["a.b.c"]


async def test_new_topic_of_an_endpoint_with_query_verification_is_verified(
    client: httpx2.AsyncClient, make_endpoint: Make, receiver: Receiver, tenant_id: str
) -> None:
    receiver.routes["/hook"] = "/challenge-query"
    endpoint = await make_endpoint(
        tenant_id=tenant_id,
        url=receiver.url("/hook"),
        verification="query",
        events=["a.b.c"],
    )
    receiver.requests.clear()
    path = f"/subscriptions/{endpoint['subscription']['id']}"
    assert (await client.patch(path, json={"events": ["a.b.c"]})).status_code == 200
    assert receiver.requests == []
    receiver.routes["/hook"] = "/ok"
    refused = await client.patch(path, json={"events": ["a.b.c", "d.e.f", "g.**"]})
    assert_problem(refused, 422, code="verification_failed", pointer="/url")
    assert len(receiver.requests) == 1


class _DelayedReceiver:
    """A receiver that agrees to everything once the test releases it."""

    def __init__(self) -> None:
        self.asked, self.answer = asyncio.Event(), asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            challenge = next(line for line in head.split("\r\n") if line.startswith("X-Hook-Chal"))
            self.asked.set()
            await self.answer.wait()
            answer = f"HTTP/1.1 200 OK\r\n{challenge}\r\nContent-Length: 0\r\n\r\n"
            writer.write(answer.encode())
            await writer.drain()


@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_topic_is_not_added_if_the_verified_url_changed_meanwhile(
    client: httpx2.AsyncClient, make_endpoint: Make, tenant_id: str, method: str
) -> None:
    delayed = _DelayedReceiver()
    async with Receiver(serve=delayed) as receiver:
        delayed.answer.set()
        endpoint = await make_endpoint(
            tenant_id=tenant_id, url=receiver.url(), verification="header", events=["a.b.c"]
        )
        delayed.asked.clear()
        delayed.answer.clear()
        subscription = f"/subscriptions/{endpoint['subscription']['id']}"
        path = "/subscriptions" if method == "POST" else subscription
        ids = {"endpoint_id": endpoint["id"]} if method == "POST" else {}
        adding = asyncio.create_task(
            client.request(method, path, json={"events": ["d.e.f"], **ids})
        )
        await delayed.asked.wait()
        patch = {"url": "http://127.0.0.1:4/", "verification": "none"}
        moved = await client.patch(f"/endpoints/{endpoint['id']}", json=patch)
        assert moved.status_code == 200
        delayed.answer.set()
        assert_problem(await adding, 409, code="changed_meanwhile")
    listed = (await client.get("/subscriptions")).json()["data"]
    assert [row["events"] for row in listed] == [["a.b.c"]]


async def test_url_is_not_changed_if_an_unverified_topic_was_added_meanwhile(
    client: httpx2.AsyncClient, make_subscription: Make, verified: Json
) -> None:
    path, delayed = f"/endpoints/{verified['id']}", _DelayedReceiver()
    async with Receiver(serve=delayed) as other:
        moving = asyncio.create_task(client.patch(path, json={"url": other.url()}))
        await delayed.asked.wait()
        await make_subscription(endpoint_id=verified["id"], events=["d.e.f"])
        delayed.answer.set()
        assert_problem(await moving, 409, code="changed_meanwhile")
    assert (await client.get(path)).json()["url"] == verified["url"]


async def test_url_is_not_changed_if_a_credential_was_set_meanwhile(
    key_client: KeyClient, verified: Json
) -> None:
    path, delayed = f"/endpoints/{verified['id']}", _DelayedReceiver()
    bearer = {"kind": "bearer", "token": "t0ken-for-the-present-host"}
    async with key_client(verified["tenant_id"]) as client, Receiver(serve=delayed) as other:
        moving = asyncio.create_task(client.patch(path, json={"url": other.url()}))
        await delayed.asked.wait()
        assert (await client.put(f"{path}/authentication", json=bearer)).status_code == 200
        delayed.answer.set()
        assert_problem(await moving, 409, code="changed_meanwhile")
        assert (await client.get(path)).json()["url"] == verified["url"]


@pytest.mark.parametrize("mode", ["none", "query", "header"])
@pytest.mark.parametrize(
    "url",
    [
        "http://10.0.0.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::1]/",
        "http://[::ffff:10.0.0.1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://metadata.google.internal/",
    ],
)
async def test_blocked_url_is_rejected_with_every_verification_mode(
    common_client: httpx2.AsyncClient, common_tenant: str, mode: str, url: str
) -> None:
    body = {"tenant_id": common_tenant, "url": url, "verification": mode}
    refused = await common_client.post("/endpoints", json=body)
    assert_problem(refused, 422, code="verification_failed", pointer="/url")
    endpoint = await endpoint_maker(common_client)(tenant_id=common_tenant)
    refused = await common_client.patch(
        f"/endpoints/{endpoint['id']}", json={"url": url, "verification": mode}
    )
    assert_problem(refused, 422, code="verification_failed", pointer="/url")


async def test_url_may_resolve_to_an_allowed_private_network(
    make_endpoint: Make, receiver: Receiver, tenant_id: str
) -> None:
    url = receiver.url("/challenge", host="localhost")
    endpoint = await make_endpoint(tenant_id=tenant_id, url=url, verification="header")
    assert endpoint["url"] == url


async def test_url_outside_its_allowed_networks_fails_verification(
    client: httpx2.AsyncClient, receiver: Receiver, tenant_id: str
) -> None:
    body = {
        "url": receiver.url("/challenge"),
        "tenant_id": tenant_id,
        "allowed_networks": ["203.0.113.0/24"],
    }
    answer = await client.post("/endpoints", json=body)
    assert_problem(answer, 422, code="verification_failed", pointer="/url")
    assert receiver.requests == []


@pytest.mark.parametrize(
    "narrowed",
    [{"denied_networks": (ip_network("127.0.0.1/32"),)}, {"allowed_ports": "443"}],
    ids=["network", "port"],
)
async def test_settings_restrict_the_addresses_of_endpoints(
    settings: Settings, receiver: Receiver, narrowed: dict[str, object]
) -> None:
    narrow = settings.model_copy(update=narrowed)
    async with running_app(narrow) as app, client_with(app, OPERATOR_KEY) as client:
        tenant = (await client.post("/tenants", json={"name": "Acme"})).json()
        for mode in ("none", "header"):
            body = {"tenant_id": tenant["id"], "url": receiver.url("/challenge")}
            answer = await client.post("/endpoints", json=body | {"verification": mode})
            assert_problem(answer, 422, code="verification_failed", pointer="/url")
    assert receiver.connections == 0


async def test_unverified_and_plain_http_endpoints_need_settings(
    strict_client: httpx2.AsyncClient,
) -> None:
    tenant = (await strict_client.post("/tenants", json={"name": "Acme"})).json()
    body = {"tenant_id": tenant["id"], "url": "https://example.com/", "verification": "none"}
    answer = await strict_client.post("/endpoints", json=body)
    assert_problem(answer, 422, code="verification_required", pointer="/verification")
    answer = await strict_client.post("/endpoints", json=body | {"url": "http://example.com/"})
    assert_problem(answer, 422, code="invalid_url", pointer="/url")

"""URL verification through the API: nothing is stored or changed unless the receiver agrees."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest

from api.app import create_app
from api.authentication import ensure_operator_key
from hookfast.clock import utc_now
from hookfast.settings import Settings
from tests.api_client import OPERATOR_KEY, Make, assert_problem, client_with
from tests.receiver import Receiver

pytestmark = pytest.mark.anyio


@pytest.fixture
async def tenant_id(make_tenant: Make) -> str:
    return str((await make_tenant())["id"])


@pytest.fixture
async def strict_client(settings: Settings) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a server with the default settings: https only, verified only."""
    strict = settings.model_copy(update={"allow_unverified": False, "allow_http": False})
    app = create_app(strict)
    async with app.router.lifespan_context(app), client_with(app, OPERATOR_KEY) as client:
        await ensure_operator_key(app.state.context.database, strict, clock=utc_now)
        yield client


def _challenges(receiver: Receiver) -> list[str]:
    return [request.headers["x-hook-challenge"] for request in receiver.requests]


async def test_every_topic_is_asked_about_before_an_endpoint_is_created(
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


async def test_header_verification_is_the_default_and_asks_even_without_topics(
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


async def test_a_new_url_is_verified_for_every_topic_before_it_counts(
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


async def test_other_changes_ask_nobody(
    client: httpx2.AsyncClient, make_endpoint: Make, receiver: Receiver, tenant_id: str
) -> None:
    endpoint = await make_endpoint(
        tenant_id=tenant_id, url=receiver.url("/challenge"), verification="header"
    )
    receiver.requests.clear()
    answer = await client.patch(f"/endpoints/{endpoint['id']}", json={"description": "new"})
    assert answer.status_code == 200
    assert receiver.requests == []


async def test_only_topics_new_to_the_endpoint_are_asked_about(
    client: httpx2.AsyncClient,
    make_endpoint: Make,
    make_subscription: Make,
    receiver: Receiver,
    tenant_id: str,
) -> None:
    endpoint = await make_endpoint(
        tenant_id=tenant_id,
        url=receiver.url("/challenge"),
        verification="header",
        events=["a.b.c"],
    )
    receiver.requests.clear()
    second = await make_subscription(endpoint_id=endpoint["id"], events=["a.b.c", "d.e.f"])
    path = f"/subscriptions/{second['id']}"
    await client.patch(path, json={"events": ["d.e.f", "g.**"]})
    await client.patch(path, json={"active": False})
    assert _challenges(receiver) == [f"{tenant_id}.d.e.f", f"{tenant_id}.g.**"]


async def test_a_subscription_is_not_made_when_the_receiver_does_not_want_its_topic(
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


async def test_a_networks_list_that_leaves_the_address_out_fails_verification(
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


async def test_unverified_and_plain_http_need_the_operators_settings(
    strict_client: httpx2.AsyncClient,
) -> None:
    tenant = (await strict_client.post("/tenants", json={"name": "Acme"})).json()
    body = {"tenant_id": tenant["id"], "url": "https://example.com/", "verification": "none"}
    answer = await strict_client.post("/endpoints", json=body)
    assert_problem(answer, 422, code="verification_required", pointer="/verification")
    answer = await strict_client.post("/endpoints", json=body | {"url": "http://example.com/"})
    assert_problem(answer, 422, code="invalid_url", pointer="/url")

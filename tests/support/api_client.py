"""Clients for the API under test, and the types of the fixtures that fill it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import httpx2
from fastapi import FastAPI

from api.access.authentication import ensure_operator_key
from api.process.context import Context
from hookfast.settings.settings import Settings

OPERATOR_KEY = "hf_" + "operator-key-of-the-tests-" * 2

Json = dict[str, Any]


def client_with(app: FastAPI, key: str) -> httpx2.AsyncClient:
    """A client that sends this API key; paths are relative to `/v1`."""
    return httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app),
        base_url="http://hookfast.test/v1",
        headers={"Authorization": f"Bearer {key}"},
    )


def development_settings(database_url: str, home: Path) -> Settings:
    """Settings of a development machine: loopback may be called, over HTTP, unverified."""
    return Settings(
        home=home,
        database_url=database_url,
        operator_key=OPERATOR_KEY,
        allowed_private_networks="127.0.0.0/8",
        allow_http=True,
        allow_unverified=True,
    )


@asynccontextmanager
async def started(app: FastAPI, settings: Settings) -> AsyncIterator[FastAPI]:
    """The application running on these settings, with its operator key."""
    app.state.settings = settings
    async with app.router.lifespan_context(app):
        context: Context = app.state.context
        await ensure_operator_key(context.database, settings, clock=context.clock)
        yield app


class Make(Protocol):
    """Makes something through the API: `members` override the defaults; gives the answer."""

    async def __call__(self, **members: Any) -> Json: ...


class MakeEventType(Protocol):
    """Registers an event type by its name."""

    async def __call__(self, name: str, **members: Any) -> Json: ...


class KeyClient(Protocol):
    """Opens a client with a new API key of a tenant."""

    def __call__(
        self, tenant_id: str, *, scope: str = "tenant"
    ) -> AbstractAsyncContextManager[httpx2.AsyncClient]: ...


def maker(client: httpx2.AsyncClient, path: str, **defaults: Any) -> Make:
    """What makes something by a POST to `path`, with these members unless told otherwise."""

    async def make(**members: Any) -> Json:
        answer = await client.post(path, json=defaults | members)
        assert answer.status_code == 201, answer.text
        document: Json = answer.json()
        return document

    return make


def endpoint_maker(client: httpx2.AsyncClient) -> Make:
    """`await make_endpoint(tenant_id=…, events=["order.**"])` → the endpoint, unverified."""
    return maker(client, "/endpoints", url="http://127.0.0.1:9/hook", verification="none")


def event_type_maker(client: httpx2.AsyncClient) -> MakeEventType:
    """`await make_event_type("order.invoice.paid", schema=…)` → the event type."""

    async def make(name: str, **members: Any) -> Json:
        answer = await client.put(f"/event-types/{name}", json=members)
        assert answer.status_code in (200, 201), answer.text
        document: Json = answer.json()
        return document

    return make


def key_client_maker(app: FastAPI, client: httpx2.AsyncClient) -> KeyClient:
    """`async with key_client(tenant_id, scope="tenant") as client:` a client with a new key."""

    @asynccontextmanager
    async def make(tenant_id: str, *, scope: str = "tenant") -> AsyncIterator[httpx2.AsyncClient]:
        answer = await client.post(
            f"/tenants/{tenant_id}/api-keys", json={"scope": scope, "name": "test"}
        )
        assert answer.status_code == 201, answer.text
        async with client_with(app, answer.json()["key"]) as other:
            yield other

    return make


def assert_problem(
    answer: httpx2.Response, status: int, *, code: str, pointer: str | None = None
) -> Json:
    """Check that the answer is this problem (RFC 9457), and give its document."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem: Json = answer.json()
    assert problem["status"] == status
    assert problem["code"] == code, problem
    assert problem["type"] == f"urn:hookfast:problem:{code}"
    assert problem["title"]
    assert problem["detail"]
    if pointer is not None:
        assert pointer in [error["pointer"] for error in problem["errors"]], problem
    return problem

"""Clients for the API under test, and functions that create objects through it."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import httpx2
from fastapi import FastAPI
from pydantic import SecretStr
from starlette.types import ASGIApp

from api.app import create_app
from api.context.context import Context
from hookfast.settings.settings import Settings
from hookfast.storage.keys.new_keys import ensure_operator_key

OPERATOR_KEY = "hf_" + "operator-key-of-the-tests-" * 2

Json = dict[str, Any]

if find_spec("sniffio") is None:
    # httpx2 tries to import it for each request, which looks through every folder of `sys.path`
    sys.modules["sniffio"] = None  # type: ignore[assignment]

_IDLE_APPS: defaultdict[object, list[FastAPI]] = defaultdict(list)


def client_with(app: ASGIApp, key: str) -> httpx2.AsyncClient:
    """Return a client that sends this API key; paths are relative to `/v1`."""
    return httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app),
        base_url="http://hookfast.test/v1",
        headers={"Authorization": f"Bearer {key}"},
    )


def development_settings(database_url: str, home: Path) -> Settings:
    """Return settings that allow unverified endpoints on loopback, over HTTP."""
    return _any_development_settings().model_copy(
        update={"home": home, "database_url": SecretStr(database_url)}
    )


@cache
def _any_development_settings() -> Settings:
    """Settings take longer to read than most tests take."""
    return Settings(
        operator_key=OPERATOR_KEY,
        allowed_private_networks="127.0.0.0/8",
        allow_http=True,
        allow_unverified=True,
    )


@contextmanager
def borrowed_app(settings: Settings) -> Iterator[FastAPI]:
    """Lend an application, not started, that nothing else uses now.

    FastAPI builds an application's routes at its first request, which takes longer than most tests.
    It reads its settings at each start, except for the trusted proxies.
    """
    idle = _IDLE_APPS[settings.trusted_proxies]
    app = idle.pop() if idle else create_app(settings)
    app.state.settings = settings
    yield app
    idle.append(app)


@asynccontextmanager
async def running_app(settings: Settings) -> AsyncIterator[FastAPI]:
    """Run a borrowed application with these settings, and create its operator key."""
    with borrowed_app(settings) as app:
        async with started(app, settings):
            yield app


@asynccontextmanager
async def started(app: FastAPI, settings: Settings) -> AsyncIterator[FastAPI]:
    """Run the application with these settings, and create its operator key."""
    app.state.settings = settings
    async with app.router.lifespan_context(app):
        context: Context = app.state.context
        await ensure_operator_key(context.database, settings, clock=context.clock)
        yield app


class Make(Protocol):
    """Creates an object through the API and returns it; `members` override the defaults."""

    async def __call__(self, **members: Any) -> Json: ...


class MakeEventType(Protocol):
    """Registers an event type under this name and returns it."""

    async def __call__(self, name: str, **members: Any) -> Json: ...


class KeyClient(Protocol):
    """Opens a client that sends a new API key of a tenant."""

    def __call__(
        self, tenant_id: str, *, scope: str = "tenant"
    ) -> AbstractAsyncContextManager[httpx2.AsyncClient]: ...


def maker(client: httpx2.AsyncClient, path: str, **defaults: Any) -> Make:
    """Return a function that creates objects by a POST to `path`, with these default members."""

    async def make(**members: Any) -> Json:
        answer = await client.post(path, json=defaults | members)
        assert answer.status_code == 201, answer.text
        document: Json = answer.json()
        return document

    return make


def endpoint_maker(client: httpx2.AsyncClient) -> Make:
    """Return a function that creates unverified endpoints.

    Example: `await make_endpoint(tenant_id=…, events=["order.**"])`.
    """
    return maker(client, "/endpoints", url="http://127.0.0.1:4/hook", verification="none")


def event_type_maker(client: httpx2.AsyncClient) -> MakeEventType:
    """Return a function that registers event types.

    Example: `await make_event_type("order.invoice.paid", schema=…)`.
    """

    async def make(name: str, **members: Any) -> Json:
        answer = await client.put(f"/event-types/{name}", json=members)
        assert answer.status_code in (200, 201), answer.text
        document: Json = answer.json()
        return document

    return make


def key_client_maker(app: FastAPI, client: httpx2.AsyncClient) -> KeyClient:
    """Return a function that opens clients with new API keys.

    Example: `async with key_client(tenant_id, scope="tenant") as client:`.
    """

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
    """Check that the answer is this problem (RFC 9457), and return its document."""
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

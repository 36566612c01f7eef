"""A running API on each kind of database, and short ways to fill it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from api.app import create_app
from api.authentication import ensure_operator_key
from api.context import Context
from hookfast.settings import Settings
from tests.api_client import (
    OPERATOR_KEY,
    Json,
    KeyClient,
    Make,
    MakeEventType,
    client_with,
)
from tests.receiver import Receiver


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    """Settings of a development machine: loopback may be called, over HTTP, unverified."""
    return Settings(
        home=tmp_path,
        database_url=database_url,
        operator_key=OPERATOR_KEY,
        allowed_private_networks="127.0.0.0/8",
        allow_http=True,
        allow_unverified=True,
    )


@pytest.fixture
async def app(settings: Settings) -> AsyncIterator[FastAPI]:
    """The application, started, with its operator key."""
    app = create_app(settings)
    async with app.router.lifespan_context(app):
        context: Context = app.state.context
        await ensure_operator_key(context.database, settings, clock=context.clock)
        yield app


@pytest.fixture
def context(app: FastAPI) -> Context:
    """The application's parts, to look behind the API."""
    return app.state.context


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    """A client with the operator's key; paths are relative to `/v1`."""
    async with client_with(app, OPERATOR_KEY) as client:
        yield client


def _maker(client: httpx2.AsyncClient, path: str, **defaults: Any) -> Make:
    async def make(**members: Any) -> Json:
        answer = await client.post(path, json=defaults | members)
        assert answer.status_code == 201, answer.text
        document: Json = answer.json()
        return document

    return make


@pytest.fixture
def make_tenant(client: httpx2.AsyncClient) -> Make:
    """`await make_tenant(name="Acme")` → the tenant."""
    return _maker(client, "/tenants", name="Acme")


@pytest.fixture
def make_endpoint(client: httpx2.AsyncClient) -> Make:
    """`await make_endpoint(tenant_id=…, events=["order.**"])` → the endpoint, unverified."""
    return _maker(client, "/endpoints", url="http://127.0.0.1:9/hook", verification="none")


@pytest.fixture
def make_subscription(client: httpx2.AsyncClient) -> Make:
    """`await make_subscription(endpoint_id=…, events=[…])` → the subscription."""
    return _maker(client, "/subscriptions")


@pytest.fixture
def make_event_type(client: httpx2.AsyncClient) -> MakeEventType:
    """`await make_event_type("order.invoice.paid", schema=…)` → the event type."""

    async def make(name: str, **members: Any) -> Json:
        answer = await client.put(f"/event-types/{name}", json=members)
        assert answer.status_code in (200, 201), answer.text
        document: Json = answer.json()
        return document

    return make


@pytest.fixture
def key_client(app: FastAPI, client: httpx2.AsyncClient) -> KeyClient:
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


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """A receiver of webhooks on loopback."""
    async with Receiver() as receiver:
        yield receiver

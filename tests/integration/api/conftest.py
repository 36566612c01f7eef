"""A running API on each kind of database, and fixtures that create objects in it."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI
from pydantic import SecretStr

from api.app import create_app
from api.context.context import Context
from hookfast.settings.settings import Settings
from hookfast.signing.keyring import encode_key
from tests.support.api_client import (
    OPERATOR_KEY,
    KeyClient,
    Make,
    MakeEventType,
    client_with,
    development_settings,
    endpoint_maker,
    event_type_maker,
    key_client_maker,
    maker,
    running_app,
    started,
)
from tests.support.receiver import Receiver
from tests.support.seed import KEY


@pytest.fixture(autouse=True)
def temporal_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """The API commits without Temporal. Port 9 (discard) is closed."""
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:9")


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    """Settings of a development machine: unverified HTTP endpoints on loopback are allowed. The key
    is given, because creating a key file waits for the disk."""
    settings = development_settings(database_url, tmp_path)
    return settings.model_copy(update={"encryption_keys": SecretStr(encode_key(KEY))})


@pytest.fixture
async def app(settings: Settings) -> AsyncIterator[FastAPI]:
    """The application, started, with its operator key."""
    async with running_app(settings) as app:
        yield app


@pytest.fixture
async def own_app(settings: Settings) -> AsyncIterator[FastAPI]:
    """An application of this test only, to which it may add routes."""
    async with started(create_app(settings), settings) as app:
        yield app


@pytest.fixture
async def answer_to_an_unexpected_error(own_app: FastAPI) -> httpx2.Response:
    """The API's answer when the route `/boom` raises a RuntimeError that says "s3cret"."""

    @own_app.get("/boom")
    async def boom() -> None:
        raise RuntimeError("s3cret")

    transport = httpx2.ASGITransport(own_app, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://hookfast.test") as client:
        return await client.get("/boom")


@pytest.fixture
def context(app: FastAPI) -> Context:
    """The application's parts, for access to what is behind the API."""
    return app.state.context


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    """A client with the operator's key; paths are relative to `/v1`."""
    async with client_with(app, OPERATOR_KEY) as client:
        yield client


@pytest.fixture(scope="session")
async def common_app(
    sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[FastAPI]:
    """One started application for all tests whose requests are rejected before the database has to
    do with them. Other objects may exist in it."""
    home = tmp_path_factory.mktemp("common")
    shutil.copyfile(sqlite_template, home / "hookfast.db")
    settings = development_settings(f"sqlite+aiosqlite:///{home / 'hookfast.db'}", home)
    unlimited = settings.model_copy(update={"auth_failures_per_minute": 0})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:9")
        async with running_app(unlimited) as app:
            yield app


@pytest.fixture(scope="session")
async def common_client(common_app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of `common_app` with the operator's key."""
    async with client_with(common_app, OPERATOR_KEY) as client:
        yield client


@pytest.fixture
async def common_tenant(common_client: httpx2.AsyncClient) -> str:
    """The id of a new tenant of `common_app`."""
    return str((await maker(common_client, "/tenants")(name="Acme"))["id"])


@pytest.fixture
def make_tenant(client: httpx2.AsyncClient) -> Make:
    """`await make_tenant(name="Acme")` → the tenant."""
    return maker(client, "/tenants", name="Acme")


@pytest.fixture
def make_endpoint(client: httpx2.AsyncClient) -> Make:
    """`await make_endpoint(tenant_id=…, events=["order.**"])` → the endpoint, unverified."""
    return endpoint_maker(client)


@pytest.fixture
def make_subscription(client: httpx2.AsyncClient) -> Make:
    """`await make_subscription(endpoint_id=…, events=[…])` → the subscription."""
    return maker(client, "/subscriptions")


@pytest.fixture
def make_event_type(client: httpx2.AsyncClient) -> MakeEventType:
    """`await make_event_type("order.invoice.paid", schema=…)` → the event type."""
    return event_type_maker(client)


@pytest.fixture
async def tenant(make_tenant: Make, make_endpoint: Make) -> str:
    """A tenant whose endpoint is subscribed to all events."""
    tenant_id = str((await make_tenant())["id"])
    await make_endpoint(tenant_id=tenant_id, events=["**"])
    return tenant_id


@pytest.fixture
def key_client(app: FastAPI, client: httpx2.AsyncClient) -> KeyClient:
    """`async with key_client(tenant_id, scope="tenant") as client:` a client with a new key."""
    return key_client_maker(app, client)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """A receiver of webhooks on loopback."""
    async with Receiver() as receiver:
        yield receiver

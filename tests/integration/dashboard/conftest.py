"""One application per database for all tests of this folder. Rows stay there, so a test only reads,
or looks only at rows that it created. Temporal is unavailable."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI

from hookfast.settings.settings import Settings
from tests.integration.api.shared.one_of_everything import one_of_everything
from tests.integration.dashboard.visitor import Visitor, signed_in
from tests.support import shared_service
from tests.support.api_client import (
    OPERATOR_KEY,
    development_settings,
    endpoint_maker,
    event_type_maker,
)

sqlite_url, postgresql_url = shared_service.sqlite_url, shared_service.postgresql_url
database_url, app, context = shared_service.database_url, shared_service.app, shared_service.context
client, key_client = shared_service.client, shared_service.key_client
compiled_templates = shared_service.compiled_templates


@pytest.fixture(scope="session")
def settings(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Allow few authentication failures. A test with failures uses a client address of its own."""
    settings = development_settings(database_url, Path(tmp_path_factory.mktemp("home")))
    return settings.model_copy(update={"auth_failures_per_minute": 3})


@pytest.fixture(scope="session")
async def operator(app: FastAPI) -> AsyncIterator[Visitor]:
    """A browser in which the operator is signed in."""
    async with signed_in(app, OPERATOR_KEY) as visitor:
        yield visitor


@pytest.fixture(scope="session")
async def owned(client: httpx2.AsyncClient) -> dict[str, str]:
    """The ids of a tenant with one of everything, by the names of path parameters."""
    return await one_of_everything(client)


@pytest.fixture
async def shop(client: httpx2.AsyncClient) -> dict[str, str]:
    """The ids of a tenant with two endpoints and a delivery to each."""
    await event_type_maker(client)("order.invoice.paid")
    tenant = (await client.post("/tenants", json={"name": "Shop"})).json()["id"]
    ids = {"tenant_id": tenant}
    for name in ("", "other_"):
        endpoint = await endpoint_maker(client)(
            tenant_id=tenant,
            description=f"{name}receiver",
            events=["order.**"],
            owner_emails=["Owner@shop.example"],
        )
        ids[f"{name}endpoint_id"] = endpoint["id"]
    event = {"tenant_id": tenant, "type": "order.invoice.paid", "data": {}}
    ids["event_id"] = (await client.post("/events", json=event)).json()["id"]
    found = (await client.get("/deliveries", params={"event_id": ids["event_id"]})).json()["data"]
    own = {each["endpoint_id"]: each["id"] for each in found}
    ids["delivery_id"] = own[ids["endpoint_id"]]
    ids["other_delivery_id"] = own[ids["other_endpoint_id"]]
    return ids

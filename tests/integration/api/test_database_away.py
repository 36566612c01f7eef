"""A database that goes away while the API runs: callers are told to retry, and the API recovers by
itself once the database is back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from tests.integration.api.inbound import SECRET, send
from tests.support.api_client import OPERATOR_KEY, client_with, development_settings, running_app
from tests.support.database_proxy import DatabaseProxy
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio


@pytest.fixture
async def line(postgresql_url: str) -> AsyncIterator[DatabaseProxy]:
    async with DatabaseProxy(postgresql_url) as line:
        yield line


@pytest.fixture
async def client(line: DatabaseProxy, tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    settings = development_settings(line.url, tmp_path)
    async with running_app(settings) as app, client_with(app, OPERATOR_KEY) as client:
        yield client


async def _answers(client: httpx2.AsyncClient) -> bool:
    return (await client.get("/events")).status_code == 200


async def test_uncommitted_request_answers_503_and_its_retry_is_stored_once(
    client: httpx2.AsyncClient, line: DatabaseProxy
) -> None:
    tenant = (await client.post("/tenants", json={"name": "Acme"})).json()["id"]
    source = await client.post(
        "/sources",
        json={"tenant_id": tenant, "name": "hub", "provider": "github", "secrets": [SECRET]},
    )
    assert source.status_code == 201, source.text
    hub = source.json()["id"]
    await client.put("/event-types/order.invoice.paid", json={})
    event = {"type": "order.invoice.paid", "data": {}, "tenant_id": tenant}
    keyed = {"Idempotency-Key": "one"}
    first = await client.post("/events", json=event, headers=keyed)
    received = await send(client, hub, {}, delivery="one")
    assert (first.status_code, received.status_code) == (202, 202)

    await line.cut()
    refused = [
        await client.post("/events", json=event, headers=keyed),
        await client.post("/events", json=event),
        await send(client, hub, {}, delivery="one"),
        await send(client, hub, {}, delivery="two"),
        await client.get("/events"),
    ]
    assert [one.status_code for one in refused] == [503] * 5
    for one in refused:
        assert one.json()["code"] == "unavailable"
        assert int(one.headers["Retry-After"]) > 0
        assert "PGSQL" not in one.text
    assert (await client.get(client.base_url.join("/readyz"))).status_code == 503
    assert (await client.get(client.base_url.join("/healthz"))).status_code == 200

    await line.listen()
    # After a failure it pauses for up to a second before it connects again.
    await eventually(lambda: _answers(client))
    again = await client.post("/events", json=event, headers=keyed)
    assert (again.status_code, again.json()) == (202, first.json())
    duplicate = await send(client, hub, {}, delivery="one")
    assert (duplicate.status_code, duplicate.json()["id"]) == (200, received.json()["id"])
    assert (await send(client, hub, {}, delivery="two")).status_code == 202
    assert len((await client.get("/events")).json()["data"]) == 3

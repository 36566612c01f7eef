"""A tenant that has one object of each kind, and Temporal for the operations that need it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest
from temporalio.testing import WorkflowEnvironment

from api.context.context import Context
from tests.integration.api.audit.scenes import EVENT_TYPE, needs_temporal
from tests.integration.api.shared.operations import Operation
from tests.support.api_client import Make, MakeEventType
from tests.support.seed_inbox import seed_entry, seed_source
from tests.support.temporal_server import temporal_server


@pytest.fixture(scope="session")
async def temporal() -> AsyncIterator[WorkflowEnvironment]:
    """A real dev server, shared by the tests of one process."""
    async with temporal_server() as environment:
        yield environment


@pytest.fixture(autouse=True)
def temporal_address(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The address of Temporal: port 9 (discard), so that it is away, unless a scene needs it."""
    address = "127.0.0.1:9"
    callspec = getattr(request.node, "callspec", None)
    operation = None if callspec is None else callspec.params.get("operation")
    if isinstance(operation, Operation) and needs_temporal(operation):
        environment: WorkflowEnvironment = request.getfixturevalue("temporal")
        address = environment.client.service_client.config.target_host
    monkeypatch.setenv("TEMPORAL_ADDRESS", address)


@pytest.fixture
async def things(
    temporal_address: None,
    client: httpx2.AsyncClient,
    context: Context,
    make_tenant: Make,
    make_endpoint: Make,
    make_event_type: MakeEventType,
) -> dict[str, str]:
    """The ids of a tenant that has one object of each kind, by the names of path parameters."""
    await make_event_type(EVENT_TYPE)
    tenant = await make_tenant(name="Acme")
    endpoint = await make_endpoint(tenant_id=tenant["id"], events=["**"])
    key = await client.post(f"/tenants/{tenant['id']}/api-keys", json={"name": "theirs"})
    form = {"tenant_id": tenant["id"], "type": EVENT_TYPE, "data": {}}
    event = (await client.post("/events", json=form)).json()
    delivery = (await client.get(f"/events/{event['id']}/deliveries")).json()["data"][0]
    job = await client.post(f"/events/{event['id']}/replay", json={})
    assert job.status_code == 202, job.text
    source = await seed_source(context.database, tenant["id"], keyring=context.keyring)
    return {
        "name": EVENT_TYPE,
        "tenant_id": tenant["id"],
        "endpoint_id": endpoint["id"],
        "subscription_id": endpoint["subscription"]["id"],
        "key_id": key.json()["id"],
        "event_id": event["id"],
        "delivery_id": delivery["id"],
        "job_id": job.json()["id"],
        "source_id": source,
        "inbox_id": await seed_entry(context.database, source, tenant["id"]),
    }

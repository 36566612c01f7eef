"""A tenant that has one object of each kind."""

from __future__ import annotations

import httpx2

from tests.integration.api.inbound import SECRET, send
from tests.support.api_client import endpoint_maker, event_type_maker, maker

EVENT_TYPE = "order.invoice.paid"


async def one_of_everything(client: httpx2.AsyncClient) -> dict[str, str]:
    """Create the tenant, and return the ids of its objects by the names of path parameters."""
    await event_type_maker(client)(EVENT_TYPE)
    tenant = await maker(client, "/tenants")(name="Victim")
    endpoint = await endpoint_maker(client)(tenant_id=tenant["id"], events=["**"])
    key = await client.post(f"/tenants/{tenant['id']}/api-keys", json={"name": "theirs"})
    event = await client.post(
        "/events", json={"tenant_id": tenant["id"], "type": EVENT_TYPE, "data": {}}
    )
    assert event.status_code == 202, event.text
    deliveries = await client.get("/deliveries", params={"event_id": event.json()["id"]})
    own = {"Authorization": f"Bearer {key.json()['key']}"}
    job = await client.post(f"/events/{event.json()['id']}/replay", json={}, headers=own)
    form = {"tenant_id": tenant["id"], "name": "x", "provider": "github", "secrets": [SECRET]}
    source = await client.post("/sources", json=form)
    received = await send(client, source.json()["id"], {})
    assert received.status_code == 202, received.text
    test = await client.post(f"/endpoints/{endpoint['id']}/test", json={"type": EVENT_TYPE})
    assert test.json()["kept"], test.text
    return {
        "tenant_id": tenant["id"],
        "endpoint_id": endpoint["id"],
        "subscription_id": endpoint["subscription"]["id"],
        "key_id": key.json()["id"],
        "event_id": event.json()["id"],
        "delivery_id": deliveries.json()["data"][0]["id"],
        "job_id": job.json()["id"],
        "source_id": source.json()["id"],
        "inbox_id": received.json()["id"],
        "test_id": test.json()["message_id"],
    }

from __future__ import annotations

import anyio
import httpx2
import pytest

from api.context.context import Context
from hookfast.endpoints.outage import workflow_id
from hookfast.storage.circuits.circuits import CircuitWorkflowRequests
from tests.support.api_client import KeyClient, Make, MakeEventType, assert_problem
from tests.support.seed import seed_delivery

pytestmark = pytest.mark.anyio


async def test_it_creates_and_shows_a_tenant(client: httpx2.AsyncClient) -> None:
    created = await client.post("/tenants", json={"name": "Acme", "metadata": {"plan": "gold"}})
    assert created.status_code == 201
    tenant = created.json()
    assert tenant["id"].startswith("tnt_")
    assert tenant["name"] == "Acme"
    assert tenant["metadata"] == {"plan": "gold"}
    assert tenant["created_at"] == tenant["updated_at"]
    assert tenant["created_at"].endswith("Z")
    assert (await client.get(f"/tenants/{tenant['id']}")).json() == tenant


async def test_patch_changes_only_the_given_members(
    client: httpx2.AsyncClient, make_tenant: Make
) -> None:
    tenant = await make_tenant(name="Acme", metadata={"a": 1, "b": {"c": 2, "d": 3}})
    path = f"/tenants/{tenant['id']}"
    answer = await client.patch(path, json={"metadata": {"a": None, "b": {"c": 4}}})
    assert answer.status_code == 200
    assert answer.json()["name"] == "Acme"
    assert answer.json()["metadata"] == {"b": {"c": 4, "d": 3}}
    assert answer.json()["updated_at"] > tenant["updated_at"]
    reset = await client.patch(path, json={"metadata": None, "name": "Bolt"})
    assert reset.json()["metadata"] == {}
    assert (await client.get(path)).json() == reset.json()


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/name"),
        ({"name": ""}, "/name"),
        ({"name": "x" * 201}, "/name"),
        ({"name": 5}, "/name"),
        ({"name": "x", "id": "tnt_mine"}, "/id"),
        ({"name": "x", "deleted_at": None}, "/deleted_at"),
        ({"name": "x", "metadata": []}, "/metadata"),
        ({"name": "x", "metadata": {"big": "x" * 9_000}}, "/metadata"),
    ],
)
async def test_invalid_tenant_is_rejected(
    client: httpx2.AsyncClient, body: dict[str, object], pointer: str
) -> None:
    assert_problem(
        await client.post("/tenants", json=body), 422, code="invalid_input", pointer=pointer
    )


async def test_patch_cannot_remove_a_required_member(
    client: httpx2.AsyncClient, make_tenant: Make
) -> None:
    tenant = await make_tenant()
    answer = await client.patch(f"/tenants/{tenant['id']}", json={"name": None})
    assert_problem(answer, 422, code="invalid_input", pointer="/name")


async def test_delete_of_a_tenant_also_deletes_keys_endpoints_and_subscriptions(
    client: httpx2.AsyncClient,
    make_tenant: Make,
    make_endpoint: Make,
    make_event_type: MakeEventType,
    key_client: KeyClient,
) -> None:
    await make_event_type("order.invoice.paid")
    tenant, other = await make_tenant(), await make_tenant()
    endpoint = await make_endpoint(tenant_id=tenant["id"], events=["order.**"])
    kept = await make_endpoint(tenant_id=other["id"], events=["order.**"])
    async with key_client(tenant["id"]) as theirs:
        assert (await theirs.get("/endpoints")).status_code == 200
        assert (await client.delete(f"/tenants/{tenant['id']}")).status_code == 204
        assert_problem(await theirs.get("/endpoints"), 401, code="invalid_key")
    for path in (
        f"/tenants/{tenant['id']}",
        f"/endpoints/{endpoint['id']}",
        f"/subscriptions/{endpoint['subscription']['id']}",
        f"/tenants/{tenant['id']}/api-keys",
    ):
        assert_problem(await client.get(path), 404, code="not_found")
    matching = await client.get("/subscriptions", params={"matches": "order.invoice.paid"})
    assert [row["id"] for row in matching.json()["data"]] == [kept["subscription"]["id"]]
    assert_problem(await client.delete(f"/tenants/{tenant['id']}"), 404, code="not_found")


async def test_endpoints_of_a_deleted_tenant_release_held_deliveries(
    client: httpx2.AsyncClient, context: Context, make_tenant: Make, make_endpoint: Make
) -> None:
    tenant, other = await make_tenant(), await make_tenant()
    made = [
        (await make_endpoint(tenant_id=owner["id"], events=["**"]))["id"]
        for owner in (tenant, tenant, other)
    ]
    holding, _, kept = made
    for endpoint in (holding, kept):
        assert (await client.post(f"/endpoints/{endpoint}/pause")).status_code == 200
        delivery = await seed_delivery(context.database, endpoint, status="held")
        assert (await client.get(f"/deliveries/{delivery}")).json()["status"] == "held"

    assert (await client.delete(f"/tenants/{tenant['id']}")).status_code == 204

    async with context.database.read() as connection:
        asking = await CircuitWorkflowRequests().find(connection, limit=10)
    assert [one.workflow_id for one in asking] == [workflow_id(holding)]


async def test_deleted_tenant_gets_no_new_deliveries(
    client: httpx2.AsyncClient, make_tenant: Make
) -> None:
    tenant = await make_tenant()
    await client.delete(f"/tenants/{tenant['id']}")
    endpoint = {"tenant_id": tenant["id"], "url": "http://127.0.0.1:4/", "verification": "none"}
    for path, body in (
        ("/endpoints", endpoint),
        (f"/tenants/{tenant['id']}/api-keys", {"name": "late"}),
    ):
        assert_problem(await client.post(path, json=body), 404, code="not_found")


@pytest.mark.parametrize("tenant_id", ["tnt_", "tnt_%00", "evt_" + "0" * 32, "tnt_" + "0" * 32])
async def test_malformed_tenant_id_answers_404(client: httpx2.AsyncClient, tenant_id: str) -> None:
    assert_problem(await client.get(f"/tenants/{tenant_id}"), 404, code="not_found")


async def test_simultaneous_changes_are_all_kept(
    client: httpx2.AsyncClient, make_tenant: Make
) -> None:
    path = f"/tenants/{(await make_tenant())['id']}"

    async def change(number: int) -> None:
        answer = await client.patch(path, json={"metadata": {str(number): number}})
        assert answer.status_code == 200

    async with anyio.create_task_group() as group:
        for number in range(10):
            group.start_soon(change, number)
    kept = (await client.get(path)).json()["metadata"]
    assert kept == {str(number): number for number in range(10)}

"""`GET /audit`: pages, filters, and what each caller may see."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from tests.integration.api.audit.scenes import EVENT_TYPE
from tests.support.api_client import Json, KeyClient, Make, assert_problem

pytestmark = pytest.mark.anyio


async def page(client: httpx2.AsyncClient, **params: Any) -> Json:
    answer = await client.get("/audit", params=params)
    assert answer.status_code == 200, answer.text
    document: Json = answer.json()
    return document


async def actions(client: httpx2.AsyncClient, **params: Any) -> list[str]:
    return [entry["action"] for entry in (await page(client, **params))["data"]]


async def test_the_list_is_newest_first_in_pages(
    client: httpx2.AsyncClient, things: dict[str, str]
) -> None:
    whole = await page(client)
    assert [entry["action"] for entry in whole["data"]] == [
        "event.replay",
        "api_key.create",
        "endpoint.create",
        "tenant.create",
        "event_type.create",
        "api_key.create",
    ]
    found: list[Json] = []
    cursor: Json = {}
    while len(found) < len(whole["data"]):
        part = await page(client, limit=2, **cursor)
        found += part["data"]
        cursor = {"cursor": part["next_cursor"]}
    assert found == whole["data"]
    assert part["next_cursor"] is None


async def test_filters_are_combined(client: httpx2.AsyncClient, things: dict[str, str]) -> None:
    path = f"/endpoints/{things['endpoint_id']}"
    await client.post(f"{path}/pause")
    [paused, created] = (await page(client, resource_id=things["endpoint_id"]))["data"]
    assert (paused["action"], created["action"]) == ("endpoint.pause", "endpoint.create")
    assert await actions(client, action="endpoint.pause") == ["endpoint.pause"]
    assert await actions(client, since=paused["at"]) == ["endpoint.pause"]
    assert await actions(client, resource_id=EVENT_TYPE) == ["event_type.create"]
    assert await actions(client, resource_id=EVENT_TYPE, action="endpoint.pause") == []
    assert await actions(client, key_id=paused["key_id"], until=created["at"]) == [
        "tenant.create",
        "event_type.create",
    ]
    assert await actions(client, tenant_id=things["tenant_id"]) == [
        "endpoint.pause",
        "event.replay",
        "api_key.create",
        "endpoint.create",
        "tenant.create",
    ]


@pytest.mark.parametrize(
    "params", [{"action": "endpoint.eat"}, {"key_id": "1"}, {"since": "noon"}, {"who": "me"}]
)
async def test_invalid_filter_is_rejected(
    client: httpx2.AsyncClient, things: dict[str, str], params: Json
) -> None:
    assert (await client.get("/audit", params=params)).status_code == 422


@pytest.mark.parametrize("scope", ["tenant", "tenant:read"])
async def test_tenant_sees_changes_to_it_without_the_operators_address(
    client: httpx2.AsyncClient,
    key_client: KeyClient,
    make_tenant: Make,
    things: dict[str, str],
    scope: str,
) -> None:
    path = f"/endpoints/{things['endpoint_id']}"
    other = (await make_tenant())["id"]
    async with (
        key_client(things["tenant_id"]) as writer,
        key_client(things["tenant_id"], scope=scope) as theirs,
        key_client(other, scope=scope) as stranger,
    ):
        await client.post(f"{path}/pause")
        await writer.post(f"{path}/resume")
        resumed, paused = (await page(theirs, resource_id=things["endpoint_id"], limit=2))["data"]
        assert (resumed["actor"], resumed["client_address"]) == ("tenant", "127.0.0.1")
        assert resumed["key_id"].startswith("key_")
        assert (paused["actor"], paused["key_id"]) == ("operator", None)
        assert paused["client_address"] is None
        assert set(await actions(stranger)) == {"tenant.create", "api_key.create"}
        assert await actions(stranger, resource_id=things["endpoint_id"]) == []
        answer = await stranger.get("/audit", params={"tenant_id": things["tenant_id"]})
        assert_problem(answer, 404, code="not_found")
    [shown, *_] = (await page(client, action="endpoint.pause"))["data"]
    assert shown["key_id"] is not None
    assert shown["client_address"] == "127.0.0.1"


async def test_emit_key_cannot_read_the_audit_log(
    key_client: KeyClient, things: dict[str, str]
) -> None:
    async with key_client(things["tenant_id"], scope="emit") as theirs:
        assert_problem(await theirs.get("/audit"), 403, code="forbidden")


async def test_audit_log_of_a_deleted_tenant_is_kept(
    client: httpx2.AsyncClient, things: dict[str, str]
) -> None:
    await client.delete(f"/tenants/{things['tenant_id']}")
    [first, *_] = await actions(client, tenant_id=things["tenant_id"])
    assert first == "tenant.delete"

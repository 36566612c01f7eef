"""Audit log entries show the values before and after a change, and contain no secrets."""

from __future__ import annotations

import json

import httpx2
import pytest

from api.context.context import Context
from tests.integration.api.audit.log import entries
from tests.integration.api.audit.scenes import RECEIVER
from tests.support.api_client import Make, MakeEventType
from tests.support.emitted import change, finish

pytestmark = pytest.mark.anyio

HUSH = "hush-this-is-secret"


async def test_entry_shows_values_before_and_after(
    client: httpx2.AsyncClient, context: Context, things: dict[str, str]
) -> None:
    path = f"/endpoints/{things['endpoint_id']}"
    await client.patch(path, json={"description": "till", "timeout_seconds": 7})
    await client.post(f"{path}/pause")
    paused, updated, *_ = await entries(context, resource_id=things["endpoint_id"])
    assert updated.changes == {
        "description": {"before": "", "after": "till"},
        "timeout_seconds": {"before": 5, "after": 7},
    }
    assert paused.changes == {
        "state": {"before": "enabled", "after": "paused"},
        "state_reason": {"before": None, "after": "Paused by request."},
    }


async def test_replaced_event_type_is_logged_with_its_schema(
    client: httpx2.AsyncClient, context: Context, make_event_type: MakeEventType
) -> None:
    await make_event_type("order.voided", schema={"type": "object"})
    await make_event_type("order.voided", description="void")
    updated, created = await entries(context, resource_id="order.voided")
    assert created.changes == {"schema": {"after": {"type": "object"}}}
    assert updated.changes == {
        "description": {"before": "", "after": "void"},
        "schema": {"before": {"type": "object"}, "after": None},
    }


async def test_deleted_endpoint_is_logged_with_its_last_values(
    client: httpx2.AsyncClient, context: Context, things: dict[str, str]
) -> None:
    await client.delete(f"/endpoints/{things['endpoint_id']}")
    [entry, *_] = await entries(context)
    assert entry.changes["url"] == {"before": RECEIVER}
    assert entry.changes["events"] == {"before": ["**"]}


async def test_job_is_logged_with_its_filter(
    client: httpx2.AsyncClient, context: Context, things: dict[str, str]
) -> None:
    await finish(context, {"id": things["job_id"]})
    await change(context, things["delivery_id"], status="dead")
    body = {"filter": {"endpoint_id": things["endpoint_id"]}, "rate_per_second": 3.0}
    job = (await client.post("/dead-letters/redrive", json=body)).json()
    [entry, *_] = await entries(context)
    logged = {name: value["after"] for name, value in entry.changes.items()}
    assert logged == {
        "job_id": job["id"],
        "kind": "redrive",
        "action": "resend",
        "filter": job["filter"],
        "total": 1,
        "rate_per_second": 3.0,
    }


async def test_audit_log_contains_no_secret(
    client: httpx2.AsyncClient, context: Context, make_tenant: Make, make_endpoint: Make
) -> None:
    tenant = (await make_tenant())["id"]
    key = (await client.post(f"/tenants/{tenant}/api-keys", json={"name": "x"})).json()["key"]
    endpoint = await make_endpoint(
        tenant_id=tenant,
        url=f"{RECEIVER}?token={HUSH}",
        headers={"Authorization": f"Bearer {HUSH}"},
        signatures=["hook", "standard-ed25519"],
    )
    path = f"/endpoints/{endpoint['id']}"
    for patch in (
        {"url": f"{RECEIVER}?token={HUSH}-2"},
        {"headers": {"Authorization": f"Bearer {HUSH}-2", "X-Other": HUSH}},
    ):
        assert (await client.patch(path, json=patch)).status_code == 200
    rotated = (await client.post(f"{path}/rotate-secret")).json()
    assert (await client.patch(path, json={"headers": None})).status_code == 200
    basic = {"kind": "basic", "username": "shop", "password": HUSH}
    for form in (basic, basic | {"password": f"{HUSH}-2"}):
        assert (await client.put(f"{path}/authentication", json=form)).status_code == 200
    assert (await client.delete(path)).status_code == 204

    logged = await entries(context, resource_id=endpoint["id"])
    assert [entry.action for entry in logged] == [
        "endpoint.delete",
        "endpoint.set_authentication",
        "endpoint.set_authentication",
        "endpoint.update",
        "endpoint.rotate_secret",
        "endpoint.update",
        "endpoint.update",
        "endpoint.create",
    ]
    _, replacement, setting, _, rotation, headers, url, _ = logged
    assert list(setting.changes) == list(replacement.changes) == ["credentials"]
    [credential] = setting.changes["credentials"]["after"]
    assert credential == {
        "kind": "basic",
        "shown": {"username": "shop"},
        "created_at": credential["created_at"],
        "expires_at": None,
    }
    assert len(replacement.changes["credentials"]["after"]) == 2
    assert list(url.changes) == ["url"]
    assert headers.changes == {
        "headers.Authorization": {"before": "***", "after": "***"},
        "headers.X-Other": {"after": "***"},
    }
    assert [len(rotation.changes["secrets"][side]) for side in ("before", "after")] == [2, 4]
    log_text = json.dumps([entry.model_dump(mode="json") for entry in await entries(context)])
    for secret in (HUSH, key, endpoint["secret"], rotated["secret"], "whsec_", "sealed"):
        assert secret not in log_text

"""Text from tenants and receivers is shown as text, and never as HTML."""

from __future__ import annotations

from html import unescape

import httpx2
import pytest
from fastapi import FastAPI
from sqlalchemy import insert, update

from api.answers.page_policy import DENY_ALL
from api.context.context import Context
from hookfast.ids import new_id
from hookfast.storage.tables import Attempt, Delivery, Endpoint, EndpointHealth, Notice
from tests.integration.dashboard.page_paths import SHOWN
from tests.integration.dashboard.visitor import Visitor, tenant_visitor
from tests.support.api_client import endpoint_maker, event_type_maker
from tests.support.rows import attempt_row
from tests.support.seed_inbox import SOURCE_SECRET, seed_entry

pytestmark = pytest.mark.anyio

# a body is downloaded unescaped, in a way that no browser shows or runs: see test_receiving
HTML = [page for page in SHOWN if page.path != "/dashboard/inbox/{inbox_id}/body"]
HOSTILE = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>{{7*7}}{% raw %}"
IN_URL = "http://127.0.0.1:4/hook?q=%22%3E&next=javascript:alert(1)&a='onload='x"


@pytest.fixture
async def hostile(client: httpx2.AsyncClient, context: Context) -> dict[str, str]:
    """The ids of a tenant with hostile text in every field."""
    await event_type_maker(client)("order.invoice.paid", description=HOSTILE)
    tenant = (await client.post("/tenants", json={"name": HOSTILE})).json()["id"]
    endpoint = await endpoint_maker(client)(
        tenant_id=tenant,
        url=IN_URL,
        description=HOSTILE,
        events=["order.**"],
        metadata={HOSTILE: HOSTILE},
        headers={"X-Own": "\"'><script>"},
    )
    event = await client.post(
        "/events",
        json={"tenant_id": tenant, "type": "order.invoice.paid", "data": {HOSTILE: HOSTILE}},
    )
    found = await client.get("/deliveries", params={"event_id": event.json()["id"]})
    delivery_id = found.json()["data"][0]["id"]
    job = await client.post(
        "/deliveries/actions", json={"action": "resend", "filter": {"tenant_id": tenant}}
    )
    source = await client.post(
        "/sources",
        json={
            "tenant_id": tenant,
            "name": HOSTILE,
            "provider": "github",
            "secrets": [SOURCE_SECRET],
            "id_expression": "'\"><script>alert(1)</script>'",
        },
    )
    inbox_id = await seed_entry(
        context.database,
        source.json()["id"],
        tenant,
        body=HOSTILE.encode(),
        key=HOSTILE,
        business_key=HOSTILE,
        content_type=HOSTILE,
        headers=[["x-hostile", HOSTILE]],
        last_error=HOSTILE,
    )
    key = await client.post(f"/tenants/{tenant}/api-keys", json={"name": HOSTILE})
    now = context.clock()
    async with context.database.write() as connection:
        own = Delivery.__table__.c.id == delivery_id
        await connection.execute(
            update(Delivery.__table__)
            .where(own)
            .values(status="dead", reason=HOSTILE, attempts=1, started_at=now, finished_at=now)
        )
        await connection.execute(
            insert(Attempt.__table__),
            attempt_row(
                *(now, delivery_id, endpoint["id"]),
                status_code=500,
                error=HOSTILE,
                response_excerpt=HOSTILE,
                url=IN_URL,
                request_headers=f"X-Hostile: {HOSTILE}",
                response_headers=f"{HOSTILE}: {HOSTILE}",
            ),
        )
        await connection.execute(
            insert(EndpointHealth.__table__),
            {
                "endpoint_id": endpoint["id"],
                "consecutive_failures": 9,
                "first_failure_at": now,
                "last_failure_at": now,
                "last_error": HOSTILE,
                "circuit": "open",
                "episode": 1,
                "cause": "failures",
                "opened_at": now,
                "workflow_started_at": now,
            },
        )
        await connection.execute(
            update(Endpoint.__table__)
            .where(Endpoint.__table__.c.id == endpoint["id"])
            .values(state_reason=HOSTILE)
        )
        await connection.execute(
            insert(Notice.__table__),
            {
                "id": new_id("ntc", now),
                "endpoint_id": endpoint["id"],
                "tenant_id": tenant,
                "episode": 1,
                "kind": "opened",
                "email": "a'><b@example.com",
                "owner_hash": "x",
                "facts": {},
                "status": "pending",
                "error": HOSTILE,
                "created_at": now,
                "workflow_started_at": now,
            },
        )
    return {
        "tenant_id": tenant,
        "endpoint_id": endpoint["id"],
        "event_id": event.json()["id"],
        "delivery_id": delivery_id,
        "job_id": job.json()["id"],
        "source_id": source.json()["id"],
        "inbox_id": inbox_id,
        "key_id": key.json()["id"],
    }


async def test_hostile_input_is_escaped_and_cannot_run_on_any_page(
    app: FastAPI, client: httpx2.AsyncClient, operator: Visitor, hostile: dict[str, str]
) -> None:
    shown = 0
    async with tenant_visitor(app, client, hostile["tenant_id"]) as owner:
        for page in HTML:
            if not set(page.parameters) <= set(hostile):
                continue
            for visitor in (owner, operator):
                answer = await visitor.get(page.at(hostile))
                assert answer.status_code in (200, 403, 404), f"{page}: {answer.text}"
                assert "<script>alert" not in answer.text, page
                assert "<img src=x" not in answer.text, page
                assert "<b@example" not in answer.text, page
                assert_only_our_script_may_run(answer, page.path)
                shown += HOSTILE in unescape(answer.text)
    assert shown > 10


async def test_rejected_query_is_escaped(operator: Visitor) -> None:
    for name in ("status", "endpoint_id", "event_type", "cursor", "nothing", "window"):
        for path in ("/dashboard", "/dashboard/deliveries", "/dashboard/endpoints"):
            answer = await operator.get(path, params={name: HOSTILE})
            assert answer.status_code in (200, 422)
            assert "<script>alert" not in answer.text


def assert_only_our_script_may_run(answer: httpx2.Response, page: str) -> None:
    policy = answer.headers["content-security-policy"]
    if policy == DENY_ALL:  # the options of a field, which no page consists of
        assert page.startswith("/dashboard/choices/")
        return
    assert "script-src 'self';" in policy
    assert "default-src 'none'" in policy
    assert "form-action 'self'" in policy
    assert "unsafe" not in policy
    assert " style=" not in answer.text, page  # the policy would block it
    assert " onclick=" not in answer.text, page
    assert "<script>" not in answer.text, page

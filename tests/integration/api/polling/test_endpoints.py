"""Polled endpoints: their settings, the operations that they reject, and their health."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from sqlalchemy import func, select

from api.context.context import Context
from hookfast.storage.tables import Delivery
from tests.integration.api.polling.polls import TYPE, emit, numbers, poll
from tests.support.api_client import assert_problem

pytestmark = pytest.mark.anyio


async def test_polled_endpoint_has_no_url_no_secret_and_no_deliveries(
    tenant: httpx2.AsyncClient, context: Context
) -> None:
    answer = await tenant.post("/endpoints", json={"mode": "poll", "events": ["order.**"]})
    endpoint = answer.json()
    assert (endpoint["url"], endpoint["secret"], endpoint["secrets"]) == (None, None, [])
    assert (endpoint["verification"], endpoint["state"]) == ("none", "enabled")
    event = await emit(tenant, 1)
    assert (await tenant.get(f"/events/{event}")).json()["deliveries"] == 0
    async with context.database.read() as connection:
        rows = await connection.execute(select(func.count()).select_from(Delivery.__table__))
        assert rows.scalar_one() == 0
    matching = (await tenant.get("/subscriptions", params={"matches": TYPE})).json()["data"]
    assert [one["endpoint_id"] for one in matching] == [endpoint["id"]]
    assert numbers(await poll(tenant, endpoint["id"])) == [1]


async def test_paused_or_disabled_polled_endpoint_loses_no_event(
    tenant: httpx2.AsyncClient, polled: str
) -> None:
    for asked, code in (("pause", "endpoint_paused"), ("disable", "endpoint_disabled")):
        assert (await tenant.post(f"/endpoints/{polled}/{asked}")).status_code == 200
        refused = await tenant.get(f"/endpoints/{polled}/poll")
        assert_problem(refused, 409, code=code)
    event = await emit(tenant, 1)
    assert (await tenant.get(f"/events/{event}/deliveries")).json()["data"] == []
    await tenant.post(f"/endpoints/{polled}/enable")
    assert numbers(await poll(tenant, polled)) == [1]


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("url", "http://127.0.0.1:4/"),
        ("headers", {"X-A": "b"}),
        ("owner_emails", ["ops@example.com"]),
        ("retry_plan", "capped"),
        ("circuit", {"failure_threshold": 3}),
        ("max_in_flight", 3),
        ("ordered", True),
        ("allowed_networks", ["10.0.0.0/8"]),
    ],
)
async def test_request_settings_of_a_polled_endpoint_are_rejected(
    tenant: httpx2.AsyncClient, polled: str, member: str, value: Any
) -> None:
    created = await tenant.post("/endpoints", json={"mode": "poll", member: value})
    assert_problem(created, 422, code="invalid_input", pointer=f"/{member}")
    changed = await tenant.patch(f"/endpoints/{polled}", json={member: value})
    assert_problem(changed, 422, code="invalid_input", pointer=f"/{member}")


async def test_polled_endpoint_takes_no_secret(tenant: httpx2.AsyncClient) -> None:
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    answer = await tenant.post("/endpoints", json={"mode": "poll", "secret": secret})
    assert_problem(answer, 422, code="invalid_input", pointer="/secret")


async def test_operations_that_send_requests_answer_409_for_a_polled_endpoint(
    tenant: httpx2.AsyncClient, polled: str
) -> None:
    bodies = {
        "test": {"type": TYPE},
        "verify": None,
        "rotate-secret": None,
        "recover": {"since": "2026-01-01T00:00:00Z"},
    }
    for name, body in bodies.items():
        answer = await tenant.post(f"/endpoints/{polled}/{name}", json=body)
        assert_problem(answer, 409, code="endpoint_is_polled")


async def test_mode_cannot_be_changed_and_the_rest_can(
    tenant: httpx2.AsyncClient, polled: str
) -> None:
    changed = await tenant.patch(
        f"/endpoints/{polled}", json={"mode": "push", "url": "http://127.0.0.1:4/"}
    )
    assert_problem(changed, 409, code="mode_is_fixed")
    same = await tenant.patch(f"/endpoints/{polled}", json={"mode": "poll", "description": "x"})
    assert (same.status_code, same.json()["description"]) == (200, "x")
    pushed = (
        await tenant.post("/endpoints", json={"url": "http://127.0.0.1:4/", "verification": "none"})
    ).json()["id"]
    changed = await tenant.patch(f"/endpoints/{pushed}", json={"mode": "poll", "url": None})
    assert_problem(changed, 409, code="mode_is_fixed")
    neither = await tenant.post("/endpoints", json={"events": ["**"]})
    assert_problem(neither, 422, code="invalid_input", pointer="/url")


async def test_health_shows_the_progress_of_the_consumer(
    tenant: httpx2.AsyncClient, polled: str
) -> None:
    for n in range(3):
        await emit(tenant, n)
    page = await poll(tenant, polled, limit=1)
    await poll(tenant, polled, cursor=page["next_cursor"])
    found = (await tenant.get(f"/endpoints/{polled}/health")).json()["polling"]
    assert (found["acknowledged"], found["behind"]) == (page["next_cursor"], 2)
    assert found["acknowledged_at"] is not None

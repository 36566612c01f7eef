"""The pages of events and dead letters: searching, reading, replaying and redriving."""

from __future__ import annotations

import re

import httpx2
import pytest
from fastapi import FastAPI

from api.context.context import Context
from tests.integration.dashboard.resources import EVENT_TYPE, end, new_endpoint, new_tenant
from tests.integration.dashboard.visitor import Forms, Visitor, tenant_visitor, text_of
from tests.support.api_client import event_type_maker

pytestmark = pytest.mark.anyio


async def emitted(
    client: httpx2.AsyncClient, tenant_id: str, *, key: str, times: int = 1
) -> list[str]:
    """Emit events with the keys `key-0`, `key-1`, …, and return their ids."""
    await event_type_maker(client)(EVENT_TYPE)
    event_ids = []
    for place in range(times):
        event = await client.post(
            "/events",
            json={"tenant_id": tenant_id, "type": EVENT_TYPE, "data": {"n": 1.50, "at": place}},
            headers={"Idempotency-Key": f"{key}-{place}"},
        )
        assert event.status_code == 202, event.text
        event_ids.append(event.json()["id"])
    return event_ids


async def deliveries_of(client: httpx2.AsyncClient, event_id: str) -> list[str]:
    found = await client.get(f"/events/{event_id}/deliveries")
    return [each["id"] for each in found.json()["data"]]


async def test_event_is_found_by_the_idempotency_key_of_its_emitter(
    app: FastAPI, client: httpx2.AsyncClient, operator: Visitor
) -> None:
    tenant = await new_tenant(client)
    (event,) = await emitted(client, tenant, key=f"found-{tenant}")
    page = await operator.get("/dashboard/events", params={"find": f"found-{tenant}-0"})
    assert f"/dashboard/events/{event}" in page.text
    nothing = await operator.get("/dashboard/events", params={"find": f"found-{tenant}-9"})
    assert "was emitted with this idempotency key" in text_of(nothing.text)
    async with tenant_visitor(app, client, tenant) as owner:
        # the operator's idempotency keys are not the tenant's: each has a scope of its own
        page = await owner.get("/dashboard/events", params={"find": f"found-{tenant}-0"})
        assert f"/dashboard/events/{event}" not in page.text
        listed = await owner.get("/dashboard/events", params={"type": EVENT_TYPE})
        assert f"/dashboard/events/{event}" in listed.text


async def test_searching_an_id_redirects_to_its_page(
    operator: Visitor, owned: dict[str, str]
) -> None:
    for name, place in (
        ("event_id", "events"),
        ("delivery_id", "deliveries"),
        ("inbox_id", "inbox"),
    ):
        answer = await operator.get("/dashboard/events", params={"find": owned[name]})
        assert answer.headers["location"] == f"/dashboard/{place}/{owned[name]}"


async def test_event_body_keeps_numbers_as_written(
    operator: Visitor, client: httpx2.AsyncClient
) -> None:
    tenant = await new_tenant(client)
    await event_type_maker(client)(EVENT_TYPE)
    raw = f'{{"tenant_id":"{tenant}","type":"{EVENT_TYPE}","data":{{"price":1.50,"n":1e2}}}}'
    created = await client.post(
        "/events", content=raw, headers={"Content-Type": "application/json"}
    )
    page = await operator.get(f"/dashboard/events/{created.json()['id']}")
    assert "&#34;price&#34;: 1.50," in page.text
    assert "&#34;n&#34;: 1e2" in page.text


async def test_replay_counts_deliveries_before_it_sends_them(
    app: FastAPI, client: httpx2.AsyncClient, context: Context
) -> None:
    tenant = await new_tenant(client)
    await new_endpoint(client, tenant)
    (event,) = await emitted(client, tenant, key=f"again-{tenant}")
    await end(context, *(await deliveries_of(client, event)), status="delivered")
    await new_endpoint(client, tenant, description="came later")
    path = f"/dashboard/events/{event}/replay"
    async with tenant_visitor(app, client, tenant) as visitor:
        assert "1 delivery will be resent: delivered 1" in text_of((await visitor.get(path)).text)
        failed = await visitor.get(path, params={"only": "failed"})
        assert "0 deliveries will be resent." in text_of(failed.text)
        more = await visitor.get(path, params={"include_new": "true"})
        assert "1 delivery will be created, and 1 will be resent:" in text_of(more.text)
        (fields,) = (given for method, to, given in Forms(more.text).found if to == path and given)
        text = await visitor.submit(path, **fields)
        assert "1 delivery is resent, and 1 is new." in text_of(text)
    assert len(await deliveries_of(client, event)) == 2


async def test_dead_letters_are_grouped_filtered_counted_and_redriven(
    app: FastAPI, client: httpx2.AsyncClient, context: Context
) -> None:
    tenant = await new_tenant(client)
    one = await new_endpoint(client, tenant, description="Ledger")
    await new_endpoint(client, tenant, description="Warehouse")
    for event in await emitted(client, tenant, key=f"dead-{tenant}", times=2):
        await end(context, *(await deliveries_of(client, event)))
    async with tenant_visitor(app, client, tenant) as visitor:
        page = await visitor.get("/dashboard/dead-letters")
        tiles = "Dead letters 4 ended without success Last hour 4 1–24 hours ago 0"
        assert f"{tiles} 1–7 days ago 0 Over 7 days ago 0" in text_of(page.text)
        assert re.search(r"Ledger\s*2", text_of(page.text))
        narrowed = await visitor.get("/dashboard/dead-letters", params={"endpoint_id": one})
        target = "/dashboard/dead-letters/redrive"
        (fields,) = (given for _, to, given in Forms(narrowed.text).found if to == target)
        preview = await visitor.post(target, to="all", **fields)
        assert "Redrive 2 dead letters?" in text_of(preview.text)
        (fields,) = (given for _, to, given in Forms(preview.text).found if to == f"{target}/run")
        text = await visitor.submit(f"{target}/run", **fields)
        assert "2 dead letters are being redriven." in text_of(text)
        # an empty selection is an error, and does not mean everything
        back = await visitor.submit(target, to="selected", back="/dashboard/dead-letters")
        assert "select some dead letters first" in text_of(back)
    jobs = (await client.get("/jobs", params={"tenant_id": tenant})).json()["data"]
    assert [(job["kind"], job["total"]) for job in jobs] == [("redrive", 2)]

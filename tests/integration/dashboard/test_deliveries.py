"""The pages of deliveries: one with its request, and actions on many after a preview."""

from __future__ import annotations

from datetime import timedelta

import httpx2
import pytest
from fastapi import FastAPI
from sqlalchemy import insert, update

from api.context.context import Context
from hookfast.clock import rfc3339
from hookfast.deliveries.lane import DeadLetterPolicy
from hookfast.settings.settings import Settings
from hookfast.storage.tables import Attempt, Delivery
from tests.integration.dashboard.resources import emit, end, new_endpoint, new_tenant
from tests.integration.dashboard.visitor import Visitor, signed_in, tenant_visitor, text_of
from tests.integration.storage.deliveries.ordered import end as ended
from tests.support.api_client import OPERATOR_KEY, endpoint_maker, running_app
from tests.support.emitted import change, hold
from tests.support.rows import attempt_row

pytestmark = pytest.mark.anyio


async def test_page_links_to_the_workflow_as_long_as_temporal_keeps_it(
    settings: Settings, client: httpx2.AsyncClient, context: Context
) -> None:
    tenant = await new_tenant(client)
    await new_endpoint(client, tenant)
    delivery = await emit(client, tenant)
    linked = settings.model_copy(update={"temporal_ui_url": "http://127.0.0.1:8233"})
    async with running_app(linked) as app, signed_in(app, OPERATOR_KEY) as operator:
        app.state.context.temporal_retention.known = timedelta(days=4)
        for age, links, says in (
            (3, True, "in the Temporal UI until"),
            (5, False, "kept it until"),
        ):
            finished_at = context.clock() - timedelta(days=age)
            await change(context, delivery, status="delivered", finished_at=finished_at)
            page = await operator.get(f"/dashboard/deliveries/{delivery}")
            assert (f"/workflows/delivery%2F{delivery}" in page.text) is links
            assert says in text_of(page.text)


async def test_bulk_action_shows_the_number_before_it_creates_a_job(
    app: FastAPI, client: httpx2.AsyncClient, context: Context
) -> None:
    tenant = await new_tenant(client)
    endpoint_id = await new_endpoint(client, tenant)
    delivery_ids = [await emit(client, tenant) for _ in range(4)]
    await end(context, *delivery_ids[:3])
    async with tenant_visitor(app, client, tenant) as visitor:
        page = await visitor.get("/dashboard/deliveries?status=dead")
        assert all(delivery in page.text for delivery in delivery_ids[:3])
        assert delivery_ids[3] not in page.text
        fields = {"action": "resend", "to": "all", "status": "dead", "endpoint_id": endpoint_id}
        shown = await visitor.post("/dashboard/deliveries/actions", **fields)
        assert "Resend 3 deliveries?" in text_of(shown.text)
        assert (await client.get("/jobs", params={"tenant_id": tenant})).json()["data"] == []
        text = await visitor.submit("/dashboard/deliveries/actions/run", **fields)
        assert "The job acts on 3 deliveries." in text
        assert "Done 0 of 3" in text_of(text)
        [job] = (await client.get("/jobs", params={"tenant_id": tenant})).json()["data"]
        assert (job["action"], job["total"]) == ("resend", 3)
        # deliveries that a job is about to resend are not resent twice
        again = await visitor.post("/dashboard/deliveries/actions", **fields)
        assert "Resend 0 deliveries" in text_of(again.text)
        stopped = await visitor.submit(
            f"/dashboard/jobs/{job['id']}/cancel", back=f"/dashboard/jobs/{job['id']}"
        )
        assert "stops after the deliveries in progress" in stopped

        chosen = {
            "action": "resend",
            "to": "selected",
            "ids": delivery_ids[:2],
            "back": "/dashboard",
        }
        shown = await visitor.post("/dashboard/deliveries/actions", **chosen)
        assert "Resend 2 deliveries?" in text_of(shown.text)
        nothing = await visitor.submit(
            "/dashboard/deliveries/actions",
            action="pause",
            to="selected",
            back="/dashboard/deliveries",
        )
        assert "select some deliveries first" in nothing
        # an action that applies to none of them says so
        shown = await visitor.post("/dashboard/deliveries/actions", **chosen | {"action": "pause"})
        assert "This does nothing for any of them now." in shown.text


async def test_preview_of_all_matching_ignores_the_ticked_deliveries(
    app: FastAPI, client: httpx2.AsyncClient, operator: Visitor
) -> None:
    tenant = await new_tenant(client)
    endpoint_id = await new_endpoint(client, tenant)
    delivery_ids = [await emit(client, tenant) for _ in range(3)]
    fields = {"action": "cancel", "ids": delivery_ids[:1], "status": "pending"}
    narrowed = fields | {"endpoint_id": endpoint_id}
    async with tenant_visitor(app, client, tenant) as visitor:
        page = await visitor.post("/dashboard/deliveries/actions", **narrowed, to="all")
        assert "Cancel 3 deliveries?" in text_of(page.text)
        assert "selected" not in text_of(page.text)
        assert 'name="ids"' not in page.text
        page = await visitor.post("/dashboard/deliveries/actions", **narrowed, to="selected")
        text = text_of(page.text)
        assert "Cancel 1 delivery?" in text
        assert (
            f"endpoint {endpoint_id} selected 1" in text
        )  # without the status, which does not apply
    page = await operator.post(
        "/dashboard/deliveries/actions", action="cancel", ids=delivery_ids[:1], to="all"
    )
    assert "this applies to every delivery" in text_of(page.text)


async def test_list_shows_the_deliveries_that_its_bulk_form_acts_on(
    app: FastAPI, client: httpx2.AsyncClient, context: Context
) -> None:
    tenant = await new_tenant(client)
    await new_endpoint(client, tenant)
    before = await emit(client, tenant)
    since = rfc3339(context.clock())
    after = await emit(client, tenant)
    async with tenant_visitor(app, client, tenant) as visitor:
        query = {"within": "24h", "since": since}
        page = (await visitor.get("/dashboard/deliveries", params=query)).text
    assert f'type="hidden" name="since" value="{since}"' in page
    assert after in page
    assert before not in page


async def test_last_answer_is_a_column_and_a_filter_of_lists_and_actions(
    app: FastAPI, client: httpx2.AsyncClient, context: Context
) -> None:
    tenant = await new_tenant(client)
    endpoint_id = await new_endpoint(client, tenant)
    failed, late = [await emit(client, tenant) for _ in range(2)]
    began = {"last_attempt_at": context.clock()}
    status = {"last_result": "status", "last_status_code": 503, "last_duration_ms": 120.4}
    await end(context, failed, **began, **status)
    await end(context, late, **began, last_result="timeout", last_duration_ms=15_000.0)
    event_id = (await client.get(f"/deliveries/{failed}")).json()["event_id"]
    async with tenant_visitor(app, client, tenant) as visitor:
        for path in ("deliveries", "dead-letters"):
            page = (await visitor.get(f"/dashboard/{path}")).text
            assert "503 · 120 ms" in text_of(page)
            assert "timeout · 15 s" in text_of(page)
            assert '<option value="5xx">' in page
            page = (await visitor.get(f"/dashboard/{path}?answer=5xx")).text
            assert f"/dashboard/deliveries/{failed}" in page
            assert f"/dashboard/deliveries/{late}" not in page
            assert '<input type="hidden" name="answer" value="5xx">' in page
        for path in (f"endpoints/{endpoint_id}", f"events/{event_id}"):
            assert "503 · 120 ms" in text_of((await visitor.get(f"/dashboard/{path}")).text)
        fields = {"to": "all", "answer": "timeout"}
        page = await visitor.post("/dashboard/deliveries/actions", action="resend", **fields)
        assert "Resend 1 delivery?" in text_of(page.text)
        page = await visitor.post("/dashboard/dead-letters/redrive", **fields)
        assert "Redrive 1 dead letter?" in text_of(page.text)


async def test_held_delivery_says_why_since_when_and_what_comes_next(
    client: httpx2.AsyncClient, context: Context, operator: Visitor
) -> None:
    tenant = await new_tenant(client)
    endpoint_id = await new_endpoint(client, tenant)
    delivery_id = await emit(client, tenant)
    await hold(context, delivery_id, endpoint_id, circuit="draining")
    page = text_of((await operator.get(f"/dashboard/deliveries/{delivery_id}")).text)
    assert "Held: the endpoint's circuit is draining. Those on hold are sent at a rising" in page
    assert "waiting since" in page
    assert "checked again" in page
    assert "if nothing releases it before" in page
    assert "next attempt" not in page
    listed = text_of((await operator.get(f"/dashboard/deliveries?tenant_id={tenant}")).text)
    assert "the endpoint's circuit is draining" in listed
    await change(context, delivery_id, resend_asked_at=context.clock())
    page = text_of((await operator.get(f"/dashboard/deliveries/{delivery_id}")).text)
    assert "checked again" in page
    assert "next attempt" in page


async def test_queued_delivery_links_to_the_one_that_it_waits_behind(
    client: httpx2.AsyncClient, context: Context, operator: Visitor
) -> None:
    tenant = await new_tenant(client)
    await new_endpoint(client, tenant, ordered=True)
    first, second = [await emit(client, tenant) for _ in range(2)]
    page = (await operator.get(f"/dashboard/deliveries/{second}")).text
    assert f'waits behind <a class="id" href="/dashboard/deliveries/{first}">' in page
    assert "in order, without an ordering key" in text_of(page)
    listed = (await operator.get(f"/dashboard/deliveries?tenant_id={tenant}")).text
    assert f"behind dlv_…{first[-8:]}" in text_of(listed)
    await ended(context.database, first, 500, policy=DeadLetterPolicy.WAIT)
    page = text_of((await operator.get(f"/dashboard/deliveries/{first}")).text)
    assert "1 delivery waits behind it until it is resent or cancelled" in page
    assert "Cancel…" in page


async def test_delivery_page_shows_the_request_without_secrets(
    app: FastAPI, client: httpx2.AsyncClient, context: Context
) -> None:
    tenant = await new_tenant(client)
    created = await endpoint_maker(client)(
        tenant_id=tenant, events=["order.**"], headers={"Authorization": "Basic c2VjcmV0"}
    )
    delivery_id = await emit(client, tenant)
    now = context.clock()
    async with context.database.write() as connection:
        await connection.execute(
            insert(Attempt.__table__),
            attempt_row(
                *(now, delivery_id, created["id"]),
                status_code=503,
                url="https://example.com/then",
                request_headers="Host: example.com\nAuthorization: ***",
                response_headers="Server: example\n…: 2 more",
            ),
        )
        kept = update(Delivery.__table__).where(Delivery.__table__.c.id == delivery_id)
        await connection.execute(kept.values(attempts=3, retries=2))
    async with tenant_visitor(app, client, tenant) as visitor:
        page = (await visitor.get(f"/dashboard/deliveries/{delivery_id}")).text
        text = text_of(page)
        assert "Attempts 3 (2 retries)" in text
        assert '<li class="off"><div class="line"><strong>2 earlier attempts</strong>' in page
        assert "POST https://example.com/then Host: example.com Authorization: ***" in text
        assert "Server: example …: 2 more" in text
        assert "order.invoice.paid pending" in text
        assert '"data":{"amount":42}' in text  # in the curl script
        assert "openssl dgst -sha256" in text
        assert created["secret"] not in page
        assert "c2VjcmV0" not in page
        # the delivery is paused although Temporal is unavailable
        text = await visitor.submit(
            f"/dashboard/deliveries/{delivery_id}/pause",
            back=f"/dashboard/deliveries/{delivery_id}",
        )
        assert "order.invoice.paid paused" in text_of(text)

"""What can be done on the pages, without script: every form, and where it leads."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from html import unescape

import httpx2
import pytest
from fastapi import FastAPI, Request
from sqlalchemy import update

from api.authentication import Principal
from api.context import Context
from api.dashboard import live
from api.dashboard.page import View
from api.pagination import Page
from api.routes.deliveries import list_deliveries
from hookfast.storage import workers
from hookfast.storage.tables import Delivery
from tests.api_client import OPERATOR_KEY, endpoint_maker, event_type_maker
from tests.integration.dashboard.visitor import Visitor, signed_in, tenant_visitor

pytestmark = pytest.mark.anyio

EVENT_TYPE = "order.invoice.paid"


async def new_tenant(client: httpx2.AsyncClient, name: str = "Acme") -> str:
    made = await client.post("/tenants", json={"name": name})
    tenant_id: str = made.json()["id"]
    return tenant_id


async def new_endpoint(client: httpx2.AsyncClient, tenant_id: str, **members: object) -> str:
    made = await endpoint_maker(client)(tenant_id=tenant_id, events=["order.**"], **members)
    endpoint_id: str = made["id"]
    return endpoint_id


async def emit(client: httpx2.AsyncClient, tenant_id: str) -> str:
    """The id of the delivery that an event makes."""
    await event_type_maker(client)(EVENT_TYPE)
    event = await client.post(
        "/events", json={"tenant_id": tenant_id, "type": EVENT_TYPE, "data": {"amount": 42}}
    )
    found = await client.get("/deliveries", params={"event_id": event.json()["id"]})
    delivery_id: str = found.json()["data"][0]["id"]
    return delivery_id


async def end(context: Context, *delivery_ids: str, status: str = "dead") -> None:
    now = context.clock()
    ended = {"status": status, "finished_at": now, "started_at": now, "next_attempt_at": None}
    rows = Delivery.__table__
    async with context.database.write() as connection:
        await connection.execute(
            update(rows).where(rows.c.id.in_(delivery_ids)).values(ended | {"attempts": 1})
        )


def text_of(html: str) -> str:
    """What a page says, in one line."""
    body = html.partition("<main")[2]
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())


async def test_the_first_pages_of_a_new_tenant_teach_the_next_step(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    tenant = await new_tenant(client)
    async with tenant_visitor(app, client, tenant) as visitor:
        told = text_of((await visitor.get("/dashboard")).text)
        assert "Nothing was delivered in the last hour" in told
        assert "there is no endpoint yet" in told
        assert "There is no endpoint yet. Make the first one" in told
        assert "answers" not in told
        assert "Make the first one" in (await visitor.get("/dashboard/endpoints")).text
        deliveries = (await visitor.get("/dashboard/deliveries")).text
        assert "No deliveries yet" in deliveries
        assert f"--tenant {tenant}" in deliveries
        assert "No jobs yet" in (await visitor.get("/dashboard/jobs")).text


async def test_the_overview_says_whether_anything_goes_out(
    app: FastAPI, client: httpx2.AsyncClient, context: Context
) -> None:
    tenant = await new_tenant(client)
    await new_endpoint(client, tenant)
    async with tenant_visitor(app, client, tenant) as visitor:
        told = text_of((await visitor.get("/dashboard")).text)
        assert "No worker is alive, so nothing is sent now." in told
        assert "goes out when a worker is there" in told
        assert "hookfast worker" not in told  # which is the operator's to start
        async with context.database.write() as connection:
            await workers.beat(connection, "worker_1", version="1", now=context.clock())
        try:
            told = text_of((await visitor.get("/dashboard")).text)
        finally:
            async with context.database.write() as connection:
                await workers.leave(connection, "worker_1")
    assert "No worker" not in told
    assert "It shows here as it goes out." in told
    assert "Every endpoint is enabled and answers." in told


@pytest.mark.parametrize("window", ["1h", "24h", "7d", "30d"])
async def test_the_overview_counts_what_became_of_deliveries(
    app: FastAPI, client: httpx2.AsyncClient, context: Context, window: str
) -> None:
    tenant = await new_tenant(client)
    await new_endpoint(client, tenant)
    made = [await emit(client, tenant) for _ in range(5)]
    await end(context, *made[:3], status="delivered")
    await end(context, made[3])
    async with tenant_visitor(app, client, tenant) as visitor:
        page = await visitor.get(f"/dashboard?window={window}")
    told = text_of(page.text)
    assert "Delivered 3" in told
    assert "Failed 1" in told
    assert "Success rate 75 %" in told
    assert "Waiting 1 1 pending" in told
    assert "Dead letters 1" in told
    assert "3 delivered, 1 failed, 1 under way" in told  # by the bar that holds them


async def test_an_endpoint_is_made_and_its_secret_shown_once(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    tenant = await new_tenant(client)
    fields = {
        "url": "http://127.0.0.1:9/hook",
        "description": "Ledger",
        "events": "order.**\nuser.account.closed",
        "owner_emails": "ops@example.com",
        "verification": "none",
        "signatures": "standard",
        "plan": "custom",
        "own_plan": '{"delays_seconds": [1, 2]}',
        "max_in_flight": "3",
    }
    async with tenant_visitor(app, client, tenant) as visitor:
        wrong = await visitor.post("/dashboard/endpoints/new", **fields | {"max_in_flight": "many"})
        assert wrong.status_code == 422
        assert "this is not a whole number" in wrong.text
        assert 'value="Ledger"' in wrong.text  # what was filled in is still there
        answer = await visitor.post("/dashboard/endpoints/new", **fields)
        assert answer.status_code == 200
        [secret] = re.findall(r"whsec_[A-Za-z0-9+/=]+", answer.text)
        [endpoint_id] = set(re.findall(r"ep_[0-9a-f]{32}", answer.text))
        page = await visitor.get(f"/dashboard/endpoints/{endpoint_id}")
        assert secret not in page.text
    stored = (await client.get(f"/endpoints/{endpoint_id}")).json()
    assert stored["tenant_id"] == tenant
    assert stored["retry_plan"] == {"delays_seconds": [1, 2]}
    assert (stored["max_in_flight"], stored["signatures"]) == (3, ["standard"])
    assert "order.**, user.account.closed" in page.text


async def test_its_settings_are_changed_and_only_what_is_different(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    tenant = await new_tenant(client)
    endpoint_id = await new_endpoint(client, tenant, headers={"X-Own": "kept"})
    path = f"/dashboard/endpoints/{endpoint_id}/settings"
    async with tenant_visitor(app, client, tenant) as visitor:
        fields = {
            "url": "http://127.0.0.1:9/hook",
            "description": "Renamed",
            "verification": "none",
            "signatures": ["hook", "standard"],
            "plan": "hourly",
            "timeout_seconds": "5",
        }
        refused = await visitor.post(path, **fields | {"url": "ftp://example.com"})
        assert refused.status_code == 422
        assert 'role="alert"' in refused.text
        told = await visitor.posted(path, **fields)
        assert "The settings are saved." in told
        assert "Renamed" in told
        assert "Nothing was different." in await visitor.posted(path, **fields)
    entries = (await client.get("/audit", params={"resource_id": endpoint_id})).json()["data"]
    [change] = [entry for entry in entries if entry["action"] == "endpoint.update"]
    assert set(change["changes"]) == {"description"}


async def test_what_is_taken_out_of_a_retry_plan_is_gone_from_it(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    plan = {"delays_seconds": [1, 2], "jitter": 0.5, "retry_on": "transient"}
    tenant = await new_tenant(client)
    endpoint_id = await new_endpoint(client, tenant, retry_plan=plan)
    fields = {
        "url": "http://127.0.0.1:9/hook",
        "verification": "none",
        "signatures": ["hook", "standard"],
        "plan": "custom",
    }
    async with tenant_visitor(app, client, tenant) as visitor:
        path = f"/dashboard/endpoints/{endpoint_id}/settings"
        for kept in ({"delays_seconds": [1, 2], "jitter": 0.5}, {"delays_seconds": [3]}):
            told = await visitor.posted(path, **fields, own_plan=json.dumps(kept))
            assert "The settings are saved." in told
            stored = (await client.get(f"/endpoints/{endpoint_id}")).json()["retry_plan"]
            assert stored == kept
        await visitor.posted(path, **fields | {"plan": "stepped"})
    assert (await client.get(f"/endpoints/{endpoint_id}")).json()["retry_plan"] == "stepped"


async def test_settings_that_nobody_touched_are_saved_as_they_are(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    numbers = {"timeout_seconds": 5, "rate_limit_per_second": 0.1234567, "max_in_flight": 1_000}
    tenant = await new_tenant(client)
    endpoint_id = await new_endpoint(client, tenant, **numbers)
    path = f"/dashboard/endpoints/{endpoint_id}/settings"
    async with tenant_visitor(app, client, tenant) as visitor:
        page = (await visitor.get(path)).text
        shown = {name: re.search(rf'name="{name}" value="([^"]*)"', page) for name in numbers}
        fields = {name: found[1] for name, found in shown.items() if found is not None}
        assert fields == {
            "timeout_seconds": "5",
            "rate_limit_per_second": "0.1234567",
            "max_in_flight": "1000",
        }
        kept = {
            "url": "http://127.0.0.1:9/hook",
            "verification": "none",
            "signatures": ["hook", "standard"],
            "plan": "hourly",
        }
        assert "Nothing was different." in await visitor.posted(path, **fields, **kept)


async def test_an_endpoint_is_subscribed_and_its_subscription_switched_off_and_deleted(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    tenant = await new_tenant(client)
    endpoint_id, other = [await new_endpoint(client, tenant) for _ in range(2)]
    path = f"/dashboard/endpoints/{endpoint_id}"
    async with tenant_visitor(app, client, tenant) as visitor:
        told = await visitor.posted(
            f"{path}/subscriptions", events="user.account.closed, user.team.*", back=path
        )
        assert "It is subscribed to user.account.closed, user.team.*." in told
        wrong = await visitor.posted(f"{path}/subscriptions", events="user", back=path)
        assert 'role="alert"' in wrong
        listed = await client.get("/subscriptions", params={"endpoint_id": endpoint_id})
        newest = listed.json()["data"][0]
        assert newest["events"] == ["user.account.closed", "user.team.*"]
        own = f"{path}/subscriptions/{newest['id']}"
        assert "is off" in await visitor.posted(f"{own}/switch", back=path)
        assert not (await client.get(f"/subscriptions/{newest['id']}")).json()["active"]
        assert "is on" in await visitor.posted(f"{own}/switch", active="yes", back=path)
        assert "Delete this subscription?" in (await visitor.get(f"{own}/delete")).text
        # another endpoint's page does not lead to it
        through = f"/dashboard/endpoints/{other}/subscriptions/{newest['id']}"
        assert (await visitor.get(f"{through}/delete")).status_code == 404
        assert (await visitor.post(f"{through}/delete")).status_code == 404
        assert "is deleted" in await visitor.posted(f"{own}/delete")
    assert (await client.get(f"/subscriptions/{newest['id']}")).status_code == 404


async def test_an_endpoint_is_paused_resumed_disabled_and_enabled(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    tenant = await new_tenant(client)
    endpoint_id = await new_endpoint(client, tenant)
    path = f"/dashboard/endpoints/{endpoint_id}"

    async def state() -> str:
        found: str = (await client.get(f"/endpoints/{endpoint_id}")).json()["state"]
        return found

    async with tenant_visitor(app, client, tenant) as visitor:
        assert "is paused" in await visitor.posted(f"{path}/pause", back=path)
        assert await state() == "paused"
        assert "is resumed" in await visitor.posted(f"{path}/resume", back=path)
        asked = await visitor.get(f"{path}/disable")
        assert "Disable this endpoint?" in asked.text
        assert await state() == "enabled"
        assert "is disabled" in await visitor.posted(f"{path}/disable")
        assert await state() == "disabled"
        # what makes no sense is told on the page it was asked on
        told = await visitor.posted(f"{path}/pause", back=path)
        assert "The endpoint is disabled; nothing is sent to it anyway." in told
        told = await visitor.posted(f"{path}/enable", back=path, redrive="yes")
        assert "this job sends its dead letters again" in told
        assert await state() == "enabled"
        await visitor.posted(f"{path}/delete")
    assert (await client.get(f"/endpoints/{endpoint_id}")).status_code == 404


async def test_a_secret_is_rotated_with_the_overlap_that_was_chosen(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    tenant = await new_tenant(client)
    endpoint_id = await new_endpoint(client, tenant)
    path = f"/dashboard/endpoints/{endpoint_id}/rotate-secret"
    async with tenant_visitor(app, client, tenant) as visitor:
        assert "signs for" in (await visitor.get(path)).text
        refused = await visitor.post(path, overlap="99", back="/dashboard/endpoints")
        assert refused.headers["location"] == "/dashboard/endpoints"
        answer = await visitor.post(path, overlap="3600")
        assert re.search(r"whsec_[A-Za-z0-9+/=]{40}", answer.text)
        assert answer.headers["cache-control"] == "no-store"
    secrets = (await client.get(f"/endpoints/{endpoint_id}")).json()["secrets"]
    assert len(secrets) == 2


async def test_many_are_acted_on_after_their_number_was_shown(
    app: FastAPI, client: httpx2.AsyncClient, context: Context
) -> None:
    tenant = await new_tenant(client)
    endpoint_id = await new_endpoint(client, tenant)
    made = [await emit(client, tenant) for _ in range(4)]
    await end(context, *made[:3])
    async with tenant_visitor(app, client, tenant) as visitor:
        page = await visitor.get("/dashboard/deliveries?status=dead")
        assert all(delivery in page.text for delivery in made[:3])
        assert made[3] not in page.text
        asked = {"action": "resend", "to": "all", "status": "dead", "endpoint_id": endpoint_id}
        shown = await visitor.post("/dashboard/deliveries/actions", **asked)
        assert "Send again 3 deliveries?" in text_of(shown.text)
        assert (await client.get("/jobs", params={"tenant_id": tenant})).json()["data"] == []
        told = await visitor.posted("/dashboard/deliveries/actions/run", **asked)
        assert "The job acts on 3 deliveries." in told
        assert "Told 0 of 3" in text_of(told)
        [job] = (await client.get("/jobs", params={"tenant_id": tenant})).json()["data"]
        assert (job["action"], job["total"]) == ("resend", 3)
        stopped = await visitor.posted(
            f"/dashboard/jobs/{job['id']}/cancel", back=f"/dashboard/jobs/{job['id']}"
        )
        assert "stops after the deliveries under way" in stopped

        chosen = {"action": "resend", "to": "selected", "ids": made[:2], "back": "/dashboard"}
        shown = await visitor.post("/dashboard/deliveries/actions", **chosen)
        assert "Send again 2 deliveries?" in text_of(shown.text)
        nothing = await visitor.posted(
            "/dashboard/deliveries/actions",
            action="pause",
            to="selected",
            back="/dashboard/deliveries",
        )
        assert "select some deliveries first" in nothing
        # what cannot be done to any of them is said
        shown = await visitor.post("/dashboard/deliveries/actions", **chosen | {"action": "pause"})
        assert "None of them can be told to do that now." in shown.text


async def test_what_failed_in_a_window_is_counted_and_sent_again(
    app: FastAPI, client: httpx2.AsyncClient, context: Context
) -> None:
    tenant = await new_tenant(client)
    endpoint_id = await new_endpoint(client, tenant)
    await end(context, await emit(client, tenant), await emit(client, tenant))
    path = f"/dashboard/endpoints/{endpoint_id}/recover"
    async with tenant_visitor(app, client, tenant) as visitor:
        page = await visitor.get(f"{path}?since=1h")
        assert "2 deliveries ended without success in the last hour" in text_of(page.text)
        [since] = re.findall(r'name="since" value="([^"]+)"', page.text)
        assert "2 deliveries go out again" in await visitor.posted(path, since=since)


async def test_a_delivery_is_shown_with_what_was_sent_and_nothing_secret(
    app: FastAPI, client: httpx2.AsyncClient, context: Context
) -> None:
    tenant = await new_tenant(client)
    made = await endpoint_maker(client)(
        tenant_id=tenant, events=["order.**"], headers={"Authorization": "Basic c2VjcmV0"}
    )
    delivery_id = await emit(client, tenant)
    async with tenant_visitor(app, client, tenant) as visitor:
        page = (await visitor.get(f"/dashboard/deliveries/{delivery_id}")).text
        told = text_of(page)
        assert "order.invoice.paid pending" in told
        assert '"data":{"amount":42}' in told  # in the command
        assert "openssl dgst -sha256" in told
        assert made["secret"] not in page
        assert "c2VjcmV0" not in page
        # Temporal is away, and the page says so
        told = await visitor.posted(
            f"/dashboard/deliveries/{delivery_id}/pause",
            back=f"/dashboard/deliveries/{delivery_id}",
        )
        assert "Temporal is away; the delivery was not told." in told


async def test_an_operator_looks_at_one_tenant_and_at_all_again(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    one, other = await new_tenant(client, "One"), await new_tenant(client, "Other")
    ids = [await new_endpoint(client, tenant) for tenant in (one, other)]
    async with signed_in(app, OPERATOR_KEY) as visitor:
        await visitor.posted("/dashboard/settings/tenant", tenant_id=one)
        page = (await visitor.get("/dashboard/endpoints")).text
        assert ids[0] in page
        assert ids[1] not in page
        assert 'name="tenant_id"' not in (await visitor.get("/dashboard/endpoints/new")).text
        await visitor.posted("/dashboard/settings/tenant", tenant_id="")
        page = (await visitor.get("/dashboard/endpoints")).text
        assert ids[0] in page
        assert ids[1] in page
        told = await visitor.posted("/dashboard/tenants", name="Third")
        assert "Third is a tenant now." in told


async def test_the_theme_is_remembered(operator: Visitor) -> None:
    page = await operator.posted("/dashboard/settings/theme", theme="dark", back="/dashboard")
    assert 'data-theme="dark"' in page
    page = await operator.posted("/dashboard/settings/theme", theme="", back="/dashboard")
    assert "data-theme=" not in page


async def test_a_message_is_shown_once_and_to_nobody_else(
    app: FastAPI, operator: Visitor, client: httpx2.AsyncClient, owned: dict[str, str]
) -> None:
    answer = await operator.post("/dashboard/tenants", name="")
    assert answer.status_code == 422  # no `back`: a page of its own
    answer = await operator.post("/dashboard/tenants", name="", back="/dashboard/tenants")
    assert answer.status_code == 303
    flash = operator.client.cookies["hookfast-flash"]
    async with tenant_visitor(app, client, owned["tenant_id"]) as other:
        other.client.cookies.set("hookfast-flash", flash)
        assert "at least 1 character" not in (await other.get("/dashboard")).text
        other.client.cookies.set("hookfast-flash", "made up")
        assert (await other.get("/dashboard")).status_code == 200
    assert "at least 1 character" in (await operator.get("/dashboard/tenants")).text
    assert "at least 1 character" not in (await operator.get("/dashboard/tenants")).text


async def test_what_no_page_is_at_and_what_is_wrong_are_pages_too(operator: Visitor) -> None:
    for path, status in (
        ("/dashboard/nothing", 404),
        ("/dashboard/endpoints/ep_1", 404),
        ("/dashboard/deliveries?status=lost", 422),
        ("/dashboard/deliveries?wrong=%ff", 422),
        ("/dashboard/deliveries?event_type=%00", 422),
        ("/dashboard/deliveries?status=&event_type=&endpoint_id=", 200),
    ):
        answer = await operator.get(path)
        assert answer.status_code == status, path
        assert answer.headers["content-type"].startswith("text/html"), path
        assert '<main id="main"' in answer.text, path


async def test_static_files_are_kept_for_good_under_names_that_change_with_them(
    operator: Visitor,
) -> None:
    page = (await operator.get("/dashboard")).text
    files = set(re.findall(r'"(/dashboard/static/[^"]+)"', page))
    assert len(files) == 3
    for file in files:
        answer = await operator.get(file)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
    assert (await operator.get("/dashboard/static/dashboard.css")).status_code == 404
    assert (await operator.get("/dashboard/static/..%2fpage.py")).status_code == 404


async def test_a_live_part_stays_the_same_while_only_time_passes(
    app: FastAPI, context: Context, client: httpx2.AsyncClient
) -> None:
    tenant = await new_tenant(client)
    await new_endpoint(client, tenant)
    await emit(client, tenant)
    operator = Principal(scope="operator", tenant_id=None, key_id="key_1")
    listing = await list_deliveries(Page(10, None), context, operator, tenant_id=tenant)
    request = Request({"type": "http", "query_string": b"", "path": "/", "headers": []})

    def rendered(*, live: bool, later: timedelta) -> str:
        now = context.clock() + later
        view = View(request=request, context=context, now=now, visitor=None, live=live)
        return view.text("delivery_rows.html", listing=listing, names={})

    hour = timedelta(hours=1)
    assert rendered(live=False, later=hour) != rendered(live=False, later=2 * hour)
    assert rendered(live=True, later=hour) == rendered(live=True, later=2 * hour)


async def test_a_live_part_says_what_is_different_and_ends_with_the_session(
    app: FastAPI, operator: Visitor
) -> None:
    said = ["<p>one\ntwo</p>", "<p>one\ntwo</p>", "<p>three</p>", "<p>four</p>"]
    async with signed_in(app, OPERATOR_KEY) as visitor:
        request = visitor.client.build_request("GET", "/dashboard/live/overview")
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/dashboard/live/overview",
            "query_string": b"",
            "headers": [(b"cookie", request.headers["cookie"].encode())],
            "scheme": "http",
            "server": ("hookfast.test", 80),
            "app": app,
            "state": {},
        }
        context: Context = app.state.context
        view = View(request=Request(scope), context=context, now=context.clock(), visitor=None)

        async def render() -> str:
            if len(said) == 1:
                await visitor.post("/dashboard/sign-out")
            return said.pop(0)

        messages = [message async for message in live.changes(view, render, every=0.001)]
    assert messages == [
        "retry: 2000\n\n",
        "data: <p>one\ndata: two</p>\n\n",
        ":\n\n",
        "data: <p>three</p>\n\n",
        "data: <p>four</p>\n\n",
    ]

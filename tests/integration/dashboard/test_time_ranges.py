"""Time ranges of lists in the reader's zone, and sending the deliveries of a range again."""

from __future__ import annotations

import re
from datetime import datetime
from html import unescape
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import httpx2
import pytest
from fastapi import FastAPI

from api.context.context import Context
from hookfast.clock import rfc3339
from tests.integration.dashboard.resources import EVENT_TYPE, emit, end, new_endpoint, new_tenant
from tests.integration.dashboard.visitor import Forms, Visitor, tenant_visitor, text_of

pytestmark = pytest.mark.anyio

KOLKATA = ZoneInfo("Asia/Kolkata")


def local(moment: datetime) -> str:
    return moment.astimezone(KOLKATA).replace(tzinfo=None).isoformat()


def fields_of(html: str, action: str) -> dict[str, str]:
    """Return the hidden fields of the form with this target, without its tokens."""
    [fields] = (
        given for method, to, given in Forms(html).found if (method, to) == ("post", action)
    )
    return {name: value for name, value in fields.items() if name not in ("csrf", "once", "back")}


async def test_local_times_are_the_readers_and_the_address_is_the_same_for_everybody(
    app: FastAPI, client: httpx2.AsyncClient, context: Context
) -> None:
    tenant = await new_tenant(client)
    await new_endpoint(client, tenant)
    before, since = await emit(client, tenant), context.clock()
    inside, until = await emit(client, tenant), context.clock()
    after = await emit(client, tenant)
    query = {"status": "pending", "since": local(since), "until": local(until)}
    async with tenant_visitor(app, client, tenant) as visitor:
        visitor.client.cookies.set("hookfast-zone", "Asia/Kolkata")
        answer = await visitor.get("/dashboard/deliveries", params=query)
        assert answer.status_code == 303
        address = answer.headers["location"]
        utc = {"since": rfc3339(since), "until": rfc3339(until)}
        assert address == f"/dashboard/deliveries?{urlencode({'status': 'pending'} | utc)}"
        page = (await visitor.get(address)).text
        assert f"/dashboard/deliveries/{inside}" in page
        assert before not in page
        assert after not in page
        # everything on the page is about the range: the action on all matches, live updates, links
        assert fields_of(page, "/dashboard/deliveries/actions") == {
            "status": "pending", "tenant_id": tenant, **utc
        }  # fmt: skip
        [live] = re.findall(r'data-live="([^"]+)"', page)
        assert unescape(live) == address.replace("/deliveries", "/live/deliveries")
        assert 'href="/dashboard/deliveries?status=pending&amp;within=yesterday"' in page
        # clock times, because a range is chosen; in UTC on hover
        created = (await client.get(f"/deliveries/{inside}")).json()["created_at"]
        moment = datetime.fromisoformat(created)
        shown = f"{moment.astimezone(KOLKATA):%Y-%m-%d %H:%M:%S} IST"
        assert f'title="{moment:%Y-%m-%d %H:%M:%S} UTC">{shown}</time>' in page
        assert "(Asia/Kolkata)" in text_of(page)
        assert "times are in Asia/Kolkata, now UTC+05:30" in page
        shown_job = await visitor.post(
            "/dashboard/deliveries/actions",
            action="cancel",
            to="all",
            **fields_of(page, "/dashboard/deliveries/actions"),
        )
        assert f"since {since.astimezone(KOLKATA):%Y-%m-%d %H:%M:%S} IST" in text_of(shown_job.text)
        # without the cookie, or if its value is not a zone, times are UTC
        for zone in (None, "Asia", "<b>"):
            visitor.client.cookies.delete("hookfast-zone")
            if zone is not None:
                visitor.client.cookies.set("hookfast-zone", zone)
            page = (await visitor.get(address)).text
            assert "times are UTC" in page
            assert f">{moment:%Y-%m-%d %H:%M:%S} UTC</time>" in page


async def test_every_list_has_the_range(
    app: FastAPI, client: httpx2.AsyncClient, owned: dict[str, str]
) -> None:
    async with tenant_visitor(app, client, owned["tenant_id"]) as visitor:
        await _check_ranges(visitor, owned)


async def _check_ranges(visitor: Visitor, owned: dict[str, str]) -> None:
    for path, row in (
        ("deliveries", owned["delivery_id"]),
        ("events", owned["event_id"]),
        ("inbox", owned["inbox_id"]),
        ("audit", owned["endpoint_id"]),
        ("dead-letters", None),
    ):
        recent = (await visitor.get(f"/dashboard/{path}?within=24h")).text
        assert row is None or row in recent, path
        if row is not None:
            assert "in the last 24 hours (UTC)" in text_of(recent), path
            assert 'type="hidden" name="within" value="24h"' in recent, path
        old = "since=2020-01-01T00:00:00Z&until=2020-01-02T00:00:00Z"
        past = await visitor.get(f"/dashboard/{path}?{old}")
        assert past.status_code == 200
        assert row is None or row not in past.text, path
        assert "matches. Show all" in text_of(past.text), path
        day = await visitor.get(f"/dashboard/{path}?within=yesterday")
        assert re.search(r"since=\d{4}-\d\d-\d\dT00%3A00%3A00Z&until=", day.headers["location"])
        skipped = await visitor.get(
            f"/dashboard/{path}?since=2026-03-29T02:30",
            headers={"cookie": f"{cookies(visitor)}; hookfast-zone=Europe/Berlin"},
        )
        assert skipped.status_code == 422
        if row is not None:
            assert "There was no 02:30 on 2026-03-29 in Europe/Berlin" in text_of(skipped.text)
            assert 'type="text" name="since" value="2026-03-29T02:30"' in skipped.text


def cookies(visitor: Visitor) -> str:
    return "; ".join(f"{name}={value}" for name, value in dict(visitor.client.cookies).items())


async def test_failed_deliveries_of_a_range_are_counted_then_recovered(
    app: FastAPI, client: httpx2.AsyncClient, context: Context
) -> None:
    tenant = await new_tenant(client)
    endpoint_id = await new_endpoint(client, tenant)
    early, late = [await emit(client, tenant) for _ in range(2)]
    since = context.clock()
    await end(context, late)
    until = context.clock()
    await end(context, early)
    path = f"/dashboard/endpoints/{endpoint_id}/recover"
    async with tenant_visitor(app, client, tenant) as visitor:
        page = (await visitor.get(path)).text
        assert "2 deliveries The deliveries that ended without success in the last 24 hours" in (
            text_of(page)
        )
        # by when they failed: both were emitted before
        query = {"since": rfc3339(since), "until": rfc3339(until)}
        page = (await visitor.get(path, params=query)).text
        assert "1 delivery The deliveries that ended without success from " in text_of(page)
        text = await visitor.submit(path, **fields_of(page, path))
        assert "1 delivery is being resent" in text
        assert "finished until" in text_of(text)
        page = (await visitor.get(f"{path}?until=2020-01-01T00:00:00Z")).text
        assert "0 deliveries: nothing to send" in text_of(page)
        invalid = await visitor.get(f"{path}?until=soon")
        assert invalid.status_code == 422
        assert "This is not a time such as" in text_of(invalid.text)
        assert "Fix the fields above to count." in text_of(invalid.text)


async def test_ended_deliveries_of_a_range_are_counted_then_replayed(
    app: FastAPI, client: httpx2.AsyncClient, context: Context
) -> None:
    tenant = await new_tenant(client)
    endpoint_id = await new_endpoint(client, tenant)
    before, since = await emit(client, tenant), context.clock()
    inside = [await emit(client, tenant) for _ in range(3)]
    until = context.clock()
    await end(context, before, *inside[:1])
    await end(context, inside[1], status="delivered")
    query = {"since": rfc3339(since), "until": rfc3339(until)}
    path = f"/dashboard/endpoints/{endpoint_id}/replay"
    async with tenant_visitor(app, client, tenant) as visitor:
        events = (await visitor.get("/dashboard/events", params=query)).text
        [link] = re.findall(rf'href="({path}\?[^"]+)"', events)
        page = (await visitor.get(unescape(link))).text
        # by when the events were emitted; one delivery is in progress
        assert "2 deliveries The deliveries of events that were emitted from" in text_of(page)
        assert "and have ended: 1 delivered, 1 dead letter." in text_of(page)
        none = await visitor.get(path, params=query | {"event_type": "order.other.paid"})
        assert "0 deliveries: nothing to send" in text_of(none.text)
        wrong = await visitor.get(path, params=query | {"event_type": "Paid"})
        assert wrong.status_code == 422
        assert 'name="event_type" value="Paid" placeholder="any" aria-invalid="true"' in wrong.text
        one_type = (await visitor.get(path, params=query | {"event_type": EVENT_TYPE})).text
        assert fields_of(one_type, path) == query | {"event_type": EVENT_TYPE}
        await client.post(f"/endpoints/{endpoint_id}/disable")
        assert "so nothing would be sent" in text_of((await visitor.get(path, params=query)).text)
        await client.post(f"/endpoints/{endpoint_id}/enable")
        text = await visitor.submit(path, **fields_of(page, path))
        assert "2 deliveries are being resent." in text
        [job] = (await client.get("/jobs", params={"tenant_id": tenant})).json()["data"]
        chosen = {name: job["filter"][name] for name in ("endpoint_id", "since", "until")}
        assert chosen == {"endpoint_id": endpoint_id} | query
        assert (job["action"], job["total"]) == ("resend", 2)


async def test_dead_letters_of_a_range_are_redriven(
    app: FastAPI, client: httpx2.AsyncClient, context: Context
) -> None:
    tenant = await new_tenant(client)
    await new_endpoint(client, tenant)
    before, until = await emit(client, tenant), context.clock()
    await end(context, before, await emit(client, tenant))
    target = "/dashboard/dead-letters/redrive"
    async with tenant_visitor(app, client, tenant) as visitor:
        page = await visitor.get("/dashboard/dead-letters", params={"until": rfc3339(until)})
        assert "Redrive all matching…" in text_of(page.text)
        preview = await visitor.post(target, to="all", **fields_of(page.text, target))
        assert "Redrive 1 dead letter?" in text_of(preview.text)
        text = await visitor.submit(f"{target}/run", **fields_of(preview.text, f"{target}/run"))
        assert "1 dead letter is being redriven." in text

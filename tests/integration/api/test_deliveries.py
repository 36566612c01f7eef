"""Lists of deliveries, one delivery with its attempts, and who may read and act on them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from sqlalchemy import insert, update

from api.context.context import Context
from hookfast.clock import rfc3339, utc_now
from hookfast.ids import new_id
from hookfast.settings.settings import Settings
from hookfast.storage.tables import Attempt, Endpoint, EndpointHealth
from tests.support.api_client import (
    OPERATOR_KEY,
    Json,
    KeyClient,
    Make,
    MakeEventType,
    assert_problem,
    client_with,
    running_app,
)
from tests.support.emitted import TYPE, change, emit, listed
from tests.support.rows import attempt_row

pytestmark = pytest.mark.anyio

OTHER_TYPE = "order.refund.made"
UNKNOWN = "dlv_" + "0" * 32
ACTIONS = ["pause", "resume", "resend", "cancel"]


@pytest.fixture(autouse=True)
async def event_types(make_event_type: MakeEventType) -> None:
    await make_event_type(TYPE)
    await make_event_type(OTHER_TYPE)


# -- lists


async def test_each_filter_narrows_the_list(
    client: httpx2.AsyncClient, context: Context, make_tenant: Make, make_endpoint: Make
) -> None:
    tenants = [(await make_tenant())["id"] for _ in range(2)]
    for tenant_id in tenants:
        await make_endpoint(tenant_id=tenant_id, events=["**"])
    a = await emit(client, tenants[0])
    b = await emit(client, tenants[0], OTHER_TYPE)
    c = await emit(client, tenants[1])
    began = context.clock()
    answered = {"last_attempt_at": began, "last_duration_ms": 12.5}
    refused = answered | {"last_result": "refused", "last_status_code": None}
    failed = answered | {"last_result": "status", "last_status_code": 503}
    await change(context, b["id"], status="dead", **failed)
    await change(context, c["id"], status="delivered", **refused)

    ids = [c["id"], b["id"], a["id"]]
    assert await listed(client) == ids
    assert await listed(client, tenant_id=tenants[0]) == ids[1:]
    assert await listed(client, endpoint_id=c["endpoint_id"]) == ids[:1]
    assert await listed(client, subscription_id=a["subscription_id"]) == ids[1:]
    assert await listed(client, event_id=b["event_id"]) == [b["id"]]
    assert await listed(client, event_type=TYPE) == [c["id"], a["id"]]
    assert await listed(client, status="pending") == [a["id"]]
    assert await listed(client, status="dead") == [b["id"]]
    assert await listed(client, status="delivered") == [c["id"]]
    assert await listed(client, status="held") == []
    assert await listed(client, since=b["created_at"]) == ids[:2]
    assert await listed(client, until=b["created_at"]) == ids[2:]
    assert await listed(client, answer="503") == await listed(client, answer="5XX") == ids[1:2]
    assert await listed(client, answer="4xx") == await listed(client, answer="success") == []
    # delivered, and then another request, which was under way, failed
    assert await listed(client, answer="refused") == ids[:1]
    assert await listed(client, answer="refused", status="delivered") == ids[:1]
    assert await listed(client, answer="refused", event_id=c["event_id"]) == ids[:1]
    assert await listed(client, answer="refused", tenant_id=tenants[0]) == []
    await change(context, b["id"], **refused)
    assert await listed(client, answer="refused") == ids[:2]
    page = (await client.get("/deliveries", params={"answer": "refused", "limit": 1})).json()
    cursor = page["next_cursor"]
    assert await listed(client, answer="refused", limit=1, cursor=cursor) == ids[1:2]
    [first] = page["data"]
    assert first["last_answer"] == {
        "result": "refused",
        "status_code": None,
        "duration_ms": 12.5,
        "attempt_at": rfc3339(began),
    }
    assert (await client.get(f"/deliveries/{a['id']}")).json()["last_answer"] is None

    # the same deliveries are chosen for an action
    async def counted(**chosen: str | list[str]) -> dict[str, int]:
        form = {"action": "resend", "filter": chosen, "dry_run": True}
        answer = await client.post("/deliveries/actions", json=form)
        assert answer.status_code == 200, answer.text
        return dict(answer.json()["by_status"])

    assert await counted(answer="refused") == {"delivered": 1, "dead": 1}
    assert await counted(answer="refused", status="dead") == {"dead": 1}
    assert await counted(answer="refused", ids=[a["id"], b["id"]]) == {"dead": 1}
    assert await counted(answer="2xx") == {}
    assert (await client.get("/dead-letters", params={"answer": "refused"})).json()["data"][0][
        "last_answer"
    ]["result"] == "refused"
    assert (await client.get("/dead-letters", params={"answer": "503"})).json()["data"] == []


@pytest.mark.parametrize("answer", ["", "50", "600x", "6xx", "-503", "٥٠٣", "delivered"])
async def test_unknown_answer_is_rejected_with_what_is_possible(
    client: httpx2.AsyncClient, answer: str
) -> None:
    filters = {"action": "resend", "filter": {"answer": answer}, "dry_run": True}
    for response, pointer in (
        (await client.get("/deliveries", params={"answer": answer}), "answer"),
        (await client.get("/dead-letters", params={"answer": answer}), "answer"),
        (await client.get("/attempts", params={"answer": answer}), "answer"),
        (await client.post("/deliveries/actions", json=filters), "/filter/answer"),
    ):
        assert_problem(response, 422, code="invalid_input")
        [error] = response.json()["errors"]
        assert error["pointer"] == pointer
        assert "a status code such as 503, a class (1xx, 2xx, 3xx, 4xx, 5xx)" in error["detail"]
        assert error["detail"].endswith("timeout, reset, protocol, internal")


FILTERS = ["status", "endpoint_id", "subscription_id", "event_id", "event_type", "tenant_id"]


@pytest.mark.parametrize("status", ["pending", pytest.param("delivered", marks=pytest.mark.slow)])
async def test_combined_filters_find_deliveries_that_match_all(
    client: httpx2.AsyncClient, context: Context, tenant: str, status: str
) -> None:
    wanted = await emit(client, tenant)
    await change(context, wanted["id"], status=status)
    wanted["status"] = status
    missing = {
        "status": "gone",
        "endpoint_id": "ep_" + "0" * 32,
        "subscription_id": "sub_" + "0" * 32,
        "event_id": "evt_" + "0" * 32,
        "event_type": OTHER_TYPE,
    }
    for chosen in range(2 ** len(FILTERS)):
        names = [name for bit, name in enumerate(FILTERS) if chosen & (1 << bit)]
        fits = {name: wanted[name] for name in names}
        assert await listed(client, **fits) == [wanted["id"]], names
        for name in missing.keys() & set(names):
            assert await listed(client, **fits | {name: missing[name]}) == [], (names, name)


@pytest.mark.parametrize("filters", [{}, {"status": "pending"}, {"event_type": TYPE}])
async def test_pages_have_no_gap_between_them(
    client: httpx2.AsyncClient, tenant: str, filters: Json
) -> None:
    ids = [(await emit(client, tenant))["id"] for _ in range(5)]
    found: list[str] = []
    page: Json = {"next_cursor": None}
    while True:
        cursor = {} if page["next_cursor"] is None else {"cursor": page["next_cursor"]}
        answer = await client.get("/deliveries", params=filters | cursor | {"limit": 2})
        page = answer.json()
        found += [delivery["id"] for delivery in page["data"]]
        if page["next_cursor"] is None:
            break
    assert found == ids[::-1]


# -- one delivery


async def test_delivery_shows_its_attempts(
    client: httpx2.AsyncClient, context: Context, tenant: str
) -> None:
    delivery = await emit(client, tenant)
    at = utc_now()  # an attempt is no older than its delivery
    next_attempt_at = at + timedelta(minutes=1)
    await change(
        context, delivery["id"], status="retrying", attempts=1, next_attempt_at=next_attempt_at
    )
    attempt = {
        "id": new_id("att", at),
        "number": 1,
        "trigger": "first",
        "started_at": at,
        "duration_ms": 12.5,
        "result": "status",
        "status_code": 503,
        "error": "The receiver answered 503.",
        "response_excerpt": "come back later",
        "url": "https://example.com/hook?a=1",
        "request_headers": "Host: example.com\nX-Env: ***",
        "response_headers": None,
    }
    async with context.database.write() as connection:
        await connection.execute(
            insert(Attempt.__table__),
            attempt | {"delivery_id": delivery["id"], "endpoint_id": delivery["endpoint_id"]},
        )
    shown = (await client.get(f"/deliveries/{delivery['id']}")).json()
    assert shown["status"] == "retrying"
    assert shown["attempt_count"] == 1
    assert shown["next_attempt_at"] == rfc3339(next_attempt_at)
    headers = [["Host", "example.com"], ["X-Env", "***"]]
    assert shown["attempts"] == [attempt | {"started_at": rfc3339(at), "request_headers": headers}]
    assert shown["workflow"] == {
        "id": f"delivery/{delivery['id']}",
        "url": None,
        "kept_until": None,
    }


@pytest.mark.parametrize(
    ("state", "circuit", "probe_hours", "reason", "check_hours"),
    [
        ("enabled", "open", 1, "circuit_open", 1),  # its endpoint is probed first
        ("enabled", "open", 9, "circuit_open", 6),  # it checks by itself first
        ("enabled", "half_open", 1, "circuit_half_open", 6),
        ("enabled", "draining", None, "circuit_draining", 6),
        ("paused", "open", 1, "endpoint_paused", 6),  # which is not probed
        ("enabled", "closed", None, "circuit_open", 6),  # just now: what held it until then
    ],
)
async def test_held_delivery_says_why_since_when_and_until_when(
    client: httpx2.AsyncClient,
    context: Context,
    tenant: str,
    state: str,
    circuit: str,
    probe_hours: int | None,
    reason: str,
    check_hours: int,
) -> None:
    """By the circuit as it is, although the delivery was put on hold when it was open."""
    delivery = await emit(client, tenant)
    since = utc_now()
    at = {hours: since + timedelta(hours=hours) for hours in (1, 6, 9)}
    held = {"status": "held", "reason": "circuit_open"}
    times = {"waiting_since": since, "next_attempt_at": at[6], "recheck_at": at[6]}
    await change(context, delivery["id"], **times, **held)
    health = {
        "endpoint_id": delivery["endpoint_id"],
        "circuit": circuit,
        "consecutive_failures": 5,
        "next_probe_at": None if probe_hours is None else at[probe_hours],
    }
    table = Endpoint.__table__
    async with context.database.write() as connection:
        await connection.execute(insert(EndpointHealth).values(health))
        await connection.execute(
            update(table).where(table.c.id == delivery["endpoint_id"]).values(state=state)
        )
    [in_list] = (await client.get("/deliveries", params={"status": "held"})).json()["data"]
    alone = (await client.get(f"/deliveries/{delivery['id']}")).json()
    for shown in (in_list, alone):
        assert (shown["status"], shown["reason"]) == ("held", reason)
        assert shown["held_since"] == rfc3339(since)
        assert shown["next_check_at"] == rfc3339(at[check_hours])
        assert shown["next_attempt_at"] is None


@pytest.mark.parametrize(
    ("yields", "not_before_hours", "attempt_hours"),
    [(False, None, 0), (False, 1, 1), (False, 9, 9), (True, None, None)],
)
async def test_held_delivery_that_a_person_resends_has_a_next_attempt(
    client: httpx2.AsyncClient,
    context: Context,
    tenant: str,
    yields: bool,
    not_before_hours: int | None,
    attempt_hours: int | None,
) -> None:
    """Unlike that of a job, which waits with the other held deliveries."""
    delivery = await emit(client, tenant)
    now = utc_now()
    check, at = now + timedelta(hours=6), {n: now + timedelta(hours=n) for n in (0, 1, 9)}
    await change(
        context,
        delivery["id"],
        status="held",
        reason="circuit_open",
        waiting_since=now,
        recheck_at=check,
        next_attempt_at=check if attempt_hours is None else min(check, at[attempt_hours]),
        resend_asked_at=now,
        resend_yields=yields,
        resend_not_before=None if not_before_hours is None else at[not_before_hours],
    )
    shown = (await client.get(f"/deliveries/{delivery['id']}")).json()
    due = None if attempt_hours is None else rfc3339(at[attempt_hours])
    assert (shown["next_attempt_at"], shown["next_check_at"]) == (due, rfc3339(check))


async def test_delivery_that_is_not_held_has_no_time_of_a_check(
    client: httpx2.AsyncClient, tenant: str
) -> None:
    delivery = await emit(client, tenant)
    shown = (await client.get(f"/deliveries/{delivery['id']}")).json()
    assert shown["next_attempt_at"] is not None
    assert (shown["held_since"], shown["next_check_at"]) == (None, None)


async def test_newest_of_many_attempts_are_shown_oldest_first(
    client: httpx2.AsyncClient, context: Context, tenant: str
) -> None:
    delivery = await emit(client, tenant)
    at = utc_now()  # an attempt is no older than its delivery
    async with context.database.write() as connection:
        await connection.execute(
            insert(Attempt.__table__),
            [
                attempt_row(at, delivery["id"], delivery["endpoint_id"], number=number)
                for number in range(1, 251)
            ],
        )
    shown = (await client.get(f"/deliveries/{delivery['id']}")).json()
    assert [attempt["number"] for attempt in shown["attempts"]] == list(range(51, 251))


async def test_delivery_links_to_its_workflow_if_the_ui_is_configured(
    settings: Settings, client: httpx2.AsyncClient, tenant: str
) -> None:
    delivery = await emit(client, tenant)
    linked = settings.model_copy(update={"temporal_ui_url": "http://127.0.0.1:8233/"})
    async with running_app(linked) as app, client_with(app, OPERATOR_KEY) as other:
        shown = (await other.get(f"/deliveries/{delivery['id']}")).json()
    assert shown["workflow"]["url"] == (
        "http://127.0.0.1:8233/namespaces/default/workflows/delivery%2F" + delivery["id"]
    )


async def test_delivery_has_no_link_to_a_workflow_that_temporal_has_deleted(
    settings: Settings, client: httpx2.AsyncClient, context: Context, tenant: str
) -> None:
    delivery = await emit(client, tenant)
    batch_id, now = new_id("btc"), context.clock()
    made = {"attempts": 1, "batch_id": batch_id}
    linked = settings.model_copy(update={"temporal_ui_url": "http://127.0.0.1:8233/"})
    async with running_app(linked) as app, client_with(app, OPERATOR_KEY) as other:

        async def shown(finished_at: datetime | None, **columns: Any) -> Any:
            await change(context, delivery["id"], finished_at=finished_at, **columns)
            return (await other.get(f"/deliveries/{delivery['id']}")).json()["workflow"]

        unknown = await shown(now - timedelta(days=5), status="dead")
        assert (unknown["url"] is None, unknown["kept_until"]) == (False, None)

        app.state.context.temporal_retention.known = timedelta(days=4)
        kept = await shown(now - timedelta(days=3))
        assert (kept["url"] is None, kept["kept_until"]) == (
            False,
            rfc3339(now + timedelta(days=1)),
        )
        gone = await shown(now - timedelta(days=5))
        assert (gone["url"], gone["kept_until"]) == (None, rfc3339(now - timedelta(days=1)))
        gone = await shown(now - timedelta(days=5), status="delivered", **made)
        assert (gone["id"], gone["url"]) == (f"batch/{batch_id}", None)
        runs = await shown(None, status="retrying")
        assert (runs["url"] is None, runs["kept_until"]) == (False, None)


# -- who may


@pytest.mark.parametrize("delivery_id", [UNKNOWN, "1", "%00", UNKNOWN.upper()])
async def test_unknown_delivery_answers_404(client: httpx2.AsyncClient, delivery_id: str) -> None:
    assert_problem(await client.get(f"/deliveries/{delivery_id}"), 404, code="not_found")
    for action in ACTIONS:
        answer = await client.post(f"/deliveries/{delivery_id}/{action}")
        assert_problem(answer, 404, code="not_found")


async def test_deliveries_of_another_tenant_answer_404(
    client: httpx2.AsyncClient, tenant: str, make_tenant: Make, key_client: KeyClient
) -> None:
    theirs = await emit(client, tenant)
    mine = (await make_tenant())["id"]
    async with key_client(mine) as own:
        assert (await own.get(f"/deliveries/{theirs['id']}")).status_code == 404
        for action in ACTIONS:
            answer = await own.post(f"/deliveries/{theirs['id']}/{action}")
            assert answer.status_code == 404
        assert await listed(own) == []
        for name in ("endpoint_id", "subscription_id", "event_id", "event_type", "status"):
            assert await listed(own, **{name: theirs[name]}) == []
        answer = await own.get("/deliveries", params={"tenant_id": tenant})
        assert answer.status_code == 404


async def test_read_key_may_read_and_not_act(
    client: httpx2.AsyncClient, tenant: str, key_client: KeyClient
) -> None:
    delivery = await emit(client, tenant)
    async with key_client(tenant, scope="tenant:read") as own:
        assert await listed(own) == [delivery["id"]]
        assert (await own.get(f"/deliveries/{delivery['id']}")).status_code == 200
        for action in ACTIONS:
            answer = await own.post(f"/deliveries/{delivery['id']}/{action}")
            assert_problem(answer, 403, code="forbidden")


async def test_emit_key_may_not_read_deliveries(
    app: FastAPI, client: httpx2.AsyncClient, tenant: str, key_client: KeyClient
) -> None:
    delivery = await emit(client, tenant)
    async with key_client(tenant, scope="emit") as own:
        for path in ("/deliveries", f"/deliveries/{delivery['id']}"):
            assert_problem(await own.get(path), 403, code="forbidden")

"""One action on many deliveries: dry runs and jobs."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from api.context.context import Context
from hookfast.storage.deliveries import jobs, selection
from hookfast.storage.deliveries.selection import DeliverySelection
from tests.support.api_client import Json, KeyClient, Make, MakeEventType, assert_problem
from tests.support.emitted import TYPE, emit, emit_as

pytestmark = pytest.mark.anyio

OTHER_TYPE = "order.refund.made"
STATUSES = ["pending", "retrying", "held", "paused", "delivered", "dead", "gone", "cancelled"]


@pytest.fixture(autouse=True)
async def event_types(make_event_type: MakeEventType) -> None:
    await make_event_type(TYPE)
    await make_event_type(OTHER_TYPE)


async def act(client: httpx2.AsyncClient, action: str, **members: Any) -> httpx2.Response:
    return await client.post("/deliveries/actions", json={"action": action} | members)


async def chosen_by(context: Context, job: Json) -> list[str]:
    """Return the deliveries that a job will act on."""
    async with context.database.read() as connection:
        row = await jobs.get(connection, job["id"])
        assert row is not None
        chosen = DeliverySelection.from_document(row.filter)
        return await selection.next_ids(connection, chosen, after=None, limit=100)


ACTS_ON = [
    ("pause", ["pending", "retrying", "held"]),
    ("resume", ["paused"]),
    ("resend", STATUSES),
    ("cancel", ["pending", "retrying", "held", "paused"]),
]


@pytest.mark.parametrize(("action", "statuses"), ACTS_ON)
async def test_action_selects_deliveries_on_which_it_has_an_effect(
    client: httpx2.AsyncClient, context: Context, tenant: str, action: str, statuses: list[str]
) -> None:
    made = [await emit_as(client, context, tenant, status) for status in STATUSES]
    expected = [one["id"] for one in made if one["status"] in statuses]

    dry = await act(client, action, filter={"tenant_id": tenant}, dry_run=True)
    assert dry.status_code == 200
    assert dry.json() == {
        "dry_run": True,
        "matching": len(expected),
        "by_status": dict.fromkeys(statuses, 1),
    }
    assert (await client.get("/jobs")).json()["data"] == []

    answer = await act(client, action, filter={"tenant_id": tenant})
    assert answer.status_code == 202, answer.text
    job = answer.json()
    assert (job["kind"], job["action"], job["total"]) == ("action", action, len(expected))
    assert await chosen_by(context, job) == expected


async def test_each_member_of_a_filter_narrows_it(
    client: httpx2.AsyncClient, context: Context, make_tenant: Make, make_endpoint: Make
) -> None:
    tenants = [(await make_tenant())["id"] for _ in range(2)]
    for tenant_id in tenants:
        await make_endpoint(tenant_id=tenant_id, events=["**"])
    a = await emit_as(client, context, tenants[0], "dead", reason="retries_exhausted")
    b = await emit(client, tenants[0], OTHER_TYPE)
    c = await emit_as(client, context, tenants[1], "held")

    async def matching(**chosen: Any) -> int:
        answer = await act(client, "resend", filter=chosen, dry_run=True)
        assert answer.status_code == 200, answer.text
        return int(answer.json()["matching"])

    assert await matching(status="dead") == 1
    assert await matching(status=["dead", "held", "gone"]) == 2
    assert await matching(tenant_id=tenants[0]) == 2
    assert await matching(tenant_id=tenants[0], status=["held"]) == 0
    assert await matching(endpoint_id=c["endpoint_id"]) == 1
    assert await matching(subscription_id=a["subscription_id"]) == 2
    assert await matching(event_id=b["event_id"]) == 1
    assert await matching(event_type=TYPE) == 2
    assert await matching(reason="retries_exhausted") == 1
    assert await matching(since=b["created_at"]) == 2
    assert await matching(until=b["created_at"]) == 1
    assert await matching(ids=[a["id"], c["id"], a["id"]]) == 2
    assert await matching(ids=["dlv_" + "0" * 32]) == 0


async def test_job_leaves_out_later_deliveries(
    client: httpx2.AsyncClient, context: Context, tenant: str
) -> None:
    before = await emit(client, tenant)
    answer = await act(client, "cancel", filter={"tenant_id": tenant})
    await emit(client, tenant)
    assert await chosen_by(context, answer.json()) == [before["id"]]


# -- rejected filters


@pytest.mark.parametrize("body", [{}, {"filter": {}}, {"filter": {}, "dry_run": True}])
@pytest.mark.parametrize("action", ["pause", "cancel", "resend"])
async def test_empty_filter_is_rejected_without_all(
    client: httpx2.AsyncClient, tenant: str, action: str, body: Json
) -> None:
    await emit(client, tenant)
    problem = assert_problem(
        await act(client, action, **body), 422, code="empty_filter", pointer="/filter"
    )
    assert '"all": true' in problem["detail"]
    assert (await client.get("/jobs")).json()["data"] == []

    answer = await act(client, action, **body | {"all": True, "dry_run": True})
    assert answer.json()["matching"] == 1


@pytest.mark.parametrize(
    ("action", "status"),
    [("pause", "paused"), ("resume", "held"), ("cancel", ["delivered", "dead"])],
)
async def test_status_on_which_the_action_has_no_effect_is_rejected(
    client: httpx2.AsyncClient, action: str, status: Any
) -> None:
    answer = await act(client, action, filter={"status": status})
    assert_problem(answer, 422, code="invalid_input", pointer="/filter/status")


async def test_statuses_on_which_the_action_has_no_effect_are_ignored(
    client: httpx2.AsyncClient, context: Context, tenant: str
) -> None:
    for status in ("held", "delivered"):
        await emit_as(client, context, tenant, status)
    answer = await act(client, "cancel", filter={"status": ["held", "delivered"]}, dry_run=True)
    assert answer.json()["by_status"] == {"held": 1}


WRONG: list[tuple[Json, str]] = [
    ({"action": "explode"}, "/action"),
    ({"filter": {"status": "unknown"}}, "/filter/status"),
    ({"filter": {"status": []}}, "/filter/status"),
    ({"filter": {"endpoint_id": "ep_1"}}, "/filter/endpoint_id"),
    ({"filter": {"ids": []}}, "/filter/ids"),
    ({"filter": {"ids": ["dlv_1"]}}, "/filter/ids/0"),
    ({"filter": {"ids": ["dlv_" + "0" * 32] * 1_001}}, "/filter/ids"),
    ({"filter": {"event_type": "Not A Type"}}, "/filter/event_type"),
    ({"filter": {"since": "yesterday"}}, "/filter/since"),
    ({"filter": {"statuses": ["dead"]}}, "/filter/statuses"),
    ({"rate_per_second": 0}, "/rate_per_second"),
    ({"rate_per_second": 1_001}, "/rate_per_second"),
    ({"dry_run": "yes"}, "/dry_run"),
    ({"all": 1}, "/all"),
]


@pytest.mark.parametrize(("members", "pointer"), WRONG)
async def test_errors_point_at_the_faulty_member(
    client: httpx2.AsyncClient, members: Json, pointer: str
) -> None:
    body = {"action": "resend", "filter": {"status": "dead"}} | members
    answer = await client.post("/deliveries/actions", json=body)
    problem = assert_problem(answer, 422, code=answer.json()["code"])
    assert any(error["pointer"].startswith(pointer) for error in problem["errors"]), problem
    assert (await client.get("/jobs")).json()["data"] == []


# -- who may


async def test_tenant_key_acts_only_on_its_own_deliveries(
    client: httpx2.AsyncClient,
    context: Context,
    tenant: str,
    make_tenant: Make,
    make_endpoint: Make,
    key_client: KeyClient,
) -> None:
    theirs = await emit_as(client, context, tenant, "dead")
    mine = (await make_tenant())["id"]
    await make_endpoint(tenant_id=mine, events=["**"])
    own_delivery = await emit(client, mine)
    async with key_client(mine) as own:
        for name in ("endpoint_id", "subscription_id", "event_id"):
            answer = await act(own, "resend", filter={name: theirs[name]}, dry_run=True)
            assert answer.json()["matching"] == 0
        answer = await act(own, "resend", filter={"ids": [theirs["id"]]}, dry_run=True)
        assert answer.json()["matching"] == 0
        answer = await act(own, "resend", filter={"tenant_id": tenant})
        assert_problem(answer, 404, code="not_found")
        answer = await act(own, "resend", all=True)
    assert answer.status_code == 202
    assert await chosen_by(context, answer.json()) == [own_delivery["id"]]


async def test_tenant_key_cannot_exceed_the_default_rate(
    client: httpx2.AsyncClient, context: Context, tenant: str, key_client: KeyClient
) -> None:
    usual = context.settings.job_rate_per_second
    async with key_client(tenant) as own:
        answer = await act(own, "resend", all=True, rate_per_second=usual + 1)
        assert_problem(answer, 422, code="invalid_input", pointer="/rate_per_second")
        answer = await act(own, "resend", all=True, rate_per_second=usual / 2)
        assert answer.json()["rate_per_second"] == usual / 2
        assert (await act(own, "resend", all=True)).json()["rate_per_second"] == usual
    answer = await act(client, "resend", all=True, rate_per_second=usual * 2)
    assert answer.json()["rate_per_second"] == usual * 2


async def test_read_key_may_not_start_a_dry_run(tenant: str, key_client: KeyClient) -> None:
    async with key_client(tenant, scope="tenant:read") as own:
        answer = await act(own, "resend", all=True, dry_run=True)
    assert_problem(answer, 403, code="forbidden")

"""Each resource through both kinds of client, on both databases."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hookfast_client import Conflict, InvalidInput, JobNotFinished, NotFound, Unavailable
from tests.integration.client.conftest import TYPE, on_both_databases
from tests.support.faulty_proxy import Answer, FaultyProxy

pytestmark = pytest.mark.anyio

_JSON = {"Content-Type": "application/json"}


async def _all(listed: Any) -> list[Any]:
    return [item async for item in listed]


@pytest.fixture
async def tenant(hookfast: Any) -> str:
    created = await hookfast.tenants.create(name="Acme")
    return str(created["id"])


async def _endpoint(hookfast: Any, tenant: str, **more: Any) -> Any:
    return await hookfast.endpoints.create(
        tenant_id=tenant,
        url="http://127.0.0.1:4/hook",
        verification="none",
        **{"events": ["order.**"]} | more,
    )


@on_both_databases
async def test_settings_are_created_changed_listed_and_deleted(hookfast: Any, tenant: str) -> None:
    await hookfast.tenants.update(tenant, name="Acme Ltd")
    assert (await hookfast.tenants.get(tenant))["name"] == "Acme Ltd"
    assert [found["id"] for found in await _all(hookfast.tenants.list())] == [tenant]
    assert "endpoints" in await hookfast.tenants.usage(tenant)

    endpoint = await _endpoint(hookfast, tenant)
    assert endpoint["secret"].startswith("whsec_")
    changed = await hookfast.endpoints.update(
        endpoint["id"], description="Billing", max_in_flight=5, rate_limit_per_second=None
    )
    assert (changed["description"], changed["max_in_flight"]) == ("Billing", 5)
    for action, state in (("pause", "paused"), ("resume", "enabled"), ("disable", "disabled")):
        changed = await getattr(hookfast.endpoints, action)(endpoint["id"])
        assert changed["state"] == state
    assert (await hookfast.endpoints.enable(endpoint["id"]))["state"] == "enabled"
    rotated = await hookfast.endpoints.rotate_secret(endpoint["id"], overlap_seconds=0)
    assert rotated["secret"] != endpoint["secret"]
    form = {"kind": "bearer", "token": "t0ken-of-the-receiver"}
    await hookfast.endpoints.set_authentication(endpoint["id"], form)
    found = await hookfast.endpoints.get(endpoint["id"])
    assert found["authentication"]["kind"] == "bearer"
    await hookfast.endpoints.delete_authentication(endpoint["id"])
    assert (await hookfast.endpoints.health(endpoint["id"]))["circuit"]["state"] == "closed"
    assert "deliveries" in await hookfast.endpoints.stats(endpoint["id"], since=_hours(-1))
    figures = await hookfast.figures.get(endpoint_id=endpoint["id"], since=_hours(-1), by="status")
    assert figures["total"]["by_status"]["delivered"] == figures["data"][0]["attempts"] == 0
    answer = await hookfast.endpoints.test(endpoint["id"], type=TYPE)
    assert answer["succeeded"] is False
    kept = await hookfast.tests.get(answer["message_id"])
    assert kept["request_body"] == answer["body"]
    assert [one["id"] for one in await _all(hookfast.tests.list())] == [kept["id"]]
    assert (await hookfast.event_types.sample(TYPE))["type"] == TYPE

    subscription = await hookfast.subscriptions.create(
        endpoint_id=endpoint["id"], events=["order.invoice.paid"], payload="thin"
    )
    await hookfast.subscriptions.update(subscription["id"], active=False)
    assert (await hookfast.subscriptions.get(subscription["id"]))["active"] is False
    listed = await _all(hookfast.subscriptions.list(endpoint_id=endpoint["id"]))
    assert len(listed) == 2
    await hookfast.subscriptions.delete(subscription["id"])
    with pytest.raises(NotFound):
        await hookfast.subscriptions.get(subscription["id"])

    source = await hookfast.sources.create(tenant_id=tenant, name="GitHub", provider="github")
    await hookfast.sources.update(source["id"], name="GitHub Acme")
    assert [one["name"] for one in await _all(hookfast.sources.list())] == ["GitHub Acme"]
    assert (await hookfast.sources.rotate_secret(source["id"]))["id"] == source["id"]
    await hookfast.sources.stats(source["id"])
    await hookfast.sources.delete(source["id"])
    with pytest.raises(NotFound):
        await hookfast.sources.get(source["id"])

    own = await hookfast.tenants.create_api_key(tenant, name="ci", expires_at=_hours(1))
    assert own["key"].startswith("hf_")
    assert [key["id"] for key in await _all(hookfast.tenants.list_api_keys(tenant))] == [own["id"]]
    operators = await hookfast.api_keys.create(name="deploy", scope="operator")
    assert operators["id"] in [key["id"] for key in await _all(hookfast.api_keys.list())]
    await hookfast.api_keys.revoke(operators["id"])
    link = await hookfast.tenants.create_portal_link(tenant, expires_in_seconds=600)
    assert link["url"].startswith("http")

    await hookfast.endpoints.delete(endpoint["id"])
    with pytest.raises(NotFound):
        await hookfast.endpoints.get(endpoint["id"])
    assert (await hookfast.event_types.get(TYPE))["description"] == "An invoice was paid."
    assert TYPE in [one["name"] for one in await _all(hookfast.event_types.list())]
    await hookfast.tenants.delete(tenant)


@on_both_databases
async def test_deliveries_are_listed_and_acted_on(
    hookfast: Any, tenant: str, proxy: FaultyProxy
) -> None:
    await _endpoint(hookfast, tenant)
    result = await hookfast.events.emit_batch(
        [{"type": TYPE, "data": number, "tenant_id": tenant} for number in range(5)]
    )
    assert [item.event["deliveries"] for item in result] == [1] * 5
    since = _hours(-1)
    listed = await _all(hookfast.deliveries.list(status="pending", since=since, limit=2))
    assert len(listed) == len({delivery["id"] for delivery in listed}) == 5
    pages = [request for request in proxy.requests if "limit=2" in request.path]
    assert len(pages) == 3
    first, second = listed[0]["id"], listed[1]["id"]
    event = (await hookfast.deliveries.get(first))["event_id"]
    found = await _all(hookfast.events.list_deliveries(event))
    assert [delivery["id"] for delivery in found] == [first]

    for action, status in (("pause", "paused"), ("resume", "pending"), ("cancel", "cancelled")):
        proxy.next("lose the answer")  # all three may be done twice
        accepted = await getattr(hookfast.deliveries, action)(first)
        assert accepted["action"] == action
        assert (await hookfast.deliveries.get(first))["status"] == status
    with pytest.raises(Conflict):
        await hookfast.deliveries.pause(first)
    await hookfast.deliveries.resend(second)

    count = await hookfast.deliveries.act(
        action="cancel", filter={"status": ["pending"], "since": since}, dry_run=True
    )
    assert count["matching"] == 4
    with pytest.raises(InvalidInput):
        await hookfast.deliveries.act(action="cancel", filter={})
    job = await hookfast.deliveries.act(action="cancel", filter={"tenant_id": tenant})
    assert (await hookfast.jobs.get(job["id"]))["total"] == 4
    with pytest.raises(JobNotFinished) as waited:  # there is no worker
        await hookfast.jobs.wait(job["id"], timeout=0.2, poll_seconds=0.1)
    assert waited.value.job["id"] == job["id"]
    assert [one["id"] for one in await _all(hookfast.jobs.list())] == [job["id"]]
    assert (await hookfast.jobs.cancel(job["id"]))["cancel_requested"]
    assert await _all(hookfast.dead_letters.list()) == []
    assert (await hookfast.dead_letters.stats())["total"] == 0
    assert (await hookfast.dead_letters.redrive(all=True, dry_run=True))["matching"] == 0
    assert (await hookfast.events.replay(event, dry_run=True))["dry_run"] is True


async def test_a_job_is_waited_for_through_an_outage(hookfast: Any, proxy: FaultyProxy) -> None:
    def job(status: str, done: int) -> Answer:
        members = {"id": "job_1", "status": status, "done": done, "total": 2}
        return Answer(200, json.dumps(members).encode(), _JSON)

    impatient = hookfast.with_options(max_retries=0, attempt_timeout=0.2)
    proxy.next(job("running", 0), "reset", Answer(502), "hang", job("running", 1), job("done", 2))
    seen: list[int] = []
    ended = await impatient.jobs.wait(
        "job_1", on_progress=lambda job: seen.append(job["done"]), poll_seconds=0
    )
    assert (ended["status"], seen) == ("done", [0, 1, 2])

    proxy.next(Answer(502))
    with pytest.raises(Unavailable):  # it never answered: more likely a wrong URL than a restart
        await impatient.jobs.wait("job_1", poll_seconds=0)


def _hours(hours: float) -> datetime:
    return datetime.now(UTC) + timedelta(hours=hours)

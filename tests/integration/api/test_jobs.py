"""Jobs: lists, progress and cancellation."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import httpx2
import pytest
from sqlalchemy import update

from api.context.context import Context
from hookfast.settings.settings import Settings
from hookfast.storage.deliveries.jobs import JobWorkflowRequests
from hookfast.storage.tables import Job
from tests.support.api_client import (
    OPERATOR_KEY,
    Json,
    KeyClient,
    Make,
    assert_problem,
    client_with,
    running_app,
)

pytestmark = pytest.mark.anyio

UNKNOWN = "job_" + "0" * 32


async def make_job(client: httpx2.AsyncClient, **members: Any) -> Json:
    body = {"action": "cancel", "all": True} | members
    answer = await client.post("/deliveries/actions", json=body)
    assert answer.status_code == 202, answer.text
    return dict(answer.json())


async def change(context: Context, job_id: str, **values: Any) -> None:
    """Write to a job's row, as the worker would."""
    table = Job.__table__
    async with context.database.write() as connection:
        await connection.execute(update(table).where(table.c.id == job_id).values(values))


async def listed(client: httpx2.AsyncClient, **filters: Any) -> list[str]:
    answer = await client.get("/jobs", params=filters)
    assert answer.status_code == 200, answer.text
    return [job["id"] for job in answer.json()["data"]]


async def test_a_new_job_waits_for_a_worker(client: httpx2.AsyncClient, context: Context) -> None:
    made = await make_job(client, filter={"status": ["held", "paused"], "reason": "circuit_open"})
    job = (await client.get(f"/jobs/{made['id']}")).json()
    assert job == made
    assert (job["status"], job["total"], job["percent"]) == ("pending", 0, 0)
    assert job["filter"] == {"statuses": ["held", "paused"], "reason": "circuit_open"}
    assert job["rate_per_second"] == context.settings.job_rate_per_second
    assert job["started_at"] is None
    assert job["finished_at"] is None
    assert job["requested_by"].startswith("key_")
    assert job["workflow"] == {"id": f"job/{job['id']}", "url": None, "kept_until": None}


async def test_running_job_shows_its_progress(client: httpx2.AsyncClient, context: Context) -> None:
    job_id = (await make_job(client))["id"]
    now = context.clock()
    await change(
        context,
        job_id,
        status="running",
        total=1_000,
        done=240,
        skipped=9,
        failed=1,
        rate_per_second=50.0,
        started_at=now - timedelta(seconds=10),
        updated_at=now,
    )
    job = (await client.get(f"/jobs/{job_id}")).json()
    assert (job["done"], job["skipped"], job["failed"], job["percent"]) == (240, 9, 1, 25.0)
    assert job["eta_seconds"] == pytest.approx(30)  # 750 left at the measured 25 a second


@pytest.mark.parametrize(("handled", "percent"), [(999, 99.9), (1_000, 99.9), (1_100, 99.9)])
async def test_job_is_at_100_percent_only_when_done(
    client: httpx2.AsyncClient, context: Context, handled: int, percent: float
) -> None:
    job_id = (await make_job(client))["id"]
    await change(context, job_id, status="running", total=1_000, done=handled)
    job = (await client.get(f"/jobs/{job_id}")).json()
    assert job["percent"] == percent
    assert job["eta_seconds"] >= 0
    await change(context, job_id, status="done")
    job = (await client.get(f"/jobs/{job_id}")).json()
    assert (job["percent"], job["eta_seconds"]) == (100, None)


async def test_jobs_are_listed_newest_first_and_by_status(
    client: httpx2.AsyncClient, context: Context
) -> None:
    ids = [(await make_job(client))["id"] for _ in range(3)]
    await change(context, ids[1], status="done")
    assert await listed(client) == ids[::-1]
    assert await listed(client, status="done") == [ids[1]]
    assert await listed(client, status="pending") == [ids[2], ids[0]]
    assert await listed(client, status="failed") == []
    page = (await client.get("/jobs", params={"limit": 2})).json()
    assert await listed(client, limit=2, cursor=page["next_cursor"]) == [ids[0]]


async def test_job_links_to_its_workflow_if_the_ui_is_configured(
    settings: Settings, client: httpx2.AsyncClient
) -> None:
    job = await make_job(client)
    linked = settings.model_copy(update={"temporal_ui_url": "http://127.0.0.1:8233/"})
    async with running_app(linked) as app, client_with(app, OPERATOR_KEY) as other:
        shown = (await other.get(f"/jobs/{job['id']}")).json()
    assert shown["workflow"]["url"] == (
        "http://127.0.0.1:8233/namespaces/default/workflows/job%2F" + job["id"]
    )


# -- cancelling


async def test_cancelling_a_job_is_stored_and_wakes_its_workflow(
    client: httpx2.AsyncClient, context: Context
) -> None:
    job_id = (await make_job(client))["id"]
    await change(context, job_id, status="running", workflow_started_at=context.clock())
    for _ in range(2):
        answer = await client.post(f"/jobs/{job_id}/cancel")
        assert answer.status_code == 202
        assert (answer.json()["status"], answer.json()["cancel_requested"]) == ("running", True)
    async with context.database.read() as connection:
        [wanted] = await JobWorkflowRequests().find(connection, limit=10)
    assert wanted.workflow_id == f"job/{job_id}"


@pytest.mark.parametrize("status", ["done", "cancelled", "failed"])
async def test_a_finished_job_cannot_be_cancelled(
    client: httpx2.AsyncClient, context: Context, status: str
) -> None:
    job_id = (await make_job(client))["id"]
    await change(context, job_id, status=status)
    answer = await client.post(f"/jobs/{job_id}/cancel")
    assert_problem(answer, 409, code="job_finished")
    assert (await client.get(f"/jobs/{job_id}")).json()["cancel_requested"] is False


# -- who may


@pytest.mark.parametrize("job_id", [UNKNOWN, "1", "%00", UNKNOWN.upper()])
async def test_unknown_job_answers_404(client: httpx2.AsyncClient, job_id: str) -> None:
    assert_problem(await client.get(f"/jobs/{job_id}"), 404, code="not_found")
    assert_problem(await client.post(f"/jobs/{job_id}/cancel"), 404, code="not_found")


async def test_a_tenant_sees_the_jobs_of_its_own_keys(
    client: httpx2.AsyncClient, make_tenant: Make, key_client: KeyClient
) -> None:
    mine, other = [(await make_tenant())["id"] for _ in range(2)]
    operators = (await make_job(client, filter={"tenant_id": mine}))["id"]
    async with key_client(other) as own:
        theirs = (await make_job(own))["id"]
    async with key_client(mine) as own:
        ours = (await make_job(own))["id"]
        assert await listed(own) == [ours]
        for job_id in (operators, theirs):
            assert_problem(await own.get(f"/jobs/{job_id}"), 404, code="not_found")
            assert_problem(await own.post(f"/jobs/{job_id}/cancel"), 404, code="not_found")
        answer = await own.get("/jobs", params={"tenant_id": other})
        assert_problem(answer, 404, code="not_found")
    async with key_client(mine, scope="tenant:read") as own:
        assert (await own.get(f"/jobs/{ours}")).status_code == 200
        assert_problem(await own.post(f"/jobs/{ours}/cancel"), 403, code="forbidden")
    assert await listed(client) == [ours, theirs, operators]
    assert await listed(client, tenant_id=other) == [theirs]

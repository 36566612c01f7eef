"""`/v1/retention`: ages, the last runs, and starting a run."""

from __future__ import annotations

import httpx2
import pytest

from api.context.context import Context
from hookfast.clock import rfc3339
from hookfast.ids import new_id
from hookfast.retention.ages import SWEEPS, cutoffs
from hookfast.storage.retention import retention_runs
from hookfast.storage.tables import RetentionRun
from tests.integration.storage.retention.old_rows import AGES, CUTOFF, NOW
from tests.support.api_client import KeyClient, Make, assert_problem

pytestmark = pytest.mark.anyio

FIGURES = {
    "rolled_up": 70,
    "figures_deleted": 2,
    "endpoints_compared": 7,
    "gauges_corrected": 2,
    "hours_different": 1,
}


async def test_operators_see_ages_and_the_last_runs(
    client: httpx2.AsyncClient, context: Context
) -> None:
    run_id = new_id("ret", NOW)
    run = RetentionRun(
        id=run_id, status="running", dry_run=False, workflow_id="retention-1", started_at=NOW
    )
    pin = {"partition": "events_20261001", "reason": "The delivery dlv_1 (paused) is kept."}
    async with context.database.write() as connection:
        await retention_runs.begin(connection, run, cutoffs=cutoffs(NOW, AGES))
        await retention_runs.count_dropped(connection, run_id, "events", rows=1_000)
        await retention_runs.set_pinned(connection, run_id, "events", [pin])
        for rows in (30, 40):
            await retention_runs.count_figures(connection, run_id, rolled_up=rows, deleted=1)
        await retention_runs.count_corrected(connection, run_id, gauges=2)
        await retention_runs.record_comparison(connection, run_id, endpoints=7, hours=1)

    answer = await client.get("/retention")

    assert answer.status_code == 200, answer.text
    shown = answer.json()
    assert {age["name"]: age["days"] for age in shown["ages"]} == {
        "attempts": 30,
        "dead_letters": 30,
        "deliveries": 30,
        "idempotency_keys": 30,
        "events": 30,
        "inbox": 30,
        "notices": 90,
        "jobs": 90,
        "audit": 365,
        "figures": 400,
    }
    assert shown["next_run_at"] is None  # Temporal is away
    [shown_run] = [one for one in shown["runs"] if one["id"] == run_id]
    assert (shown_run["status"], shown_run["workflow"]["id"]) == ("running", "retention-1")
    assert {name: shown_run[name] for name in FIGURES} == FIGURES
    assert [sweep["name"] for sweep in shown_run["sweeps"]] == list(SWEEPS)
    [events] = [sweep for sweep in shown_run["sweeps"] if sweep["name"] == "events"]
    assert events == {
        "name": "events",
        "before": rfc3339(CUTOFF),
        "deleted": 1_000,
        "kept": 0,
        "partitions": 1,
        "pinned": [pin],
        "done": False,
    }


@pytest.mark.parametrize("body", [None, {}, {"dry_run": True}])
async def test_run_that_cannot_start_answers_503(
    client: httpx2.AsyncClient, body: dict[str, bool] | None
) -> None:
    assert_problem(await client.post("/retention/runs", json=body), 503, code="unavailable")


async def test_retention_requires_an_operator_key(make_tenant: Make, key_client: KeyClient) -> None:
    tenant = await make_tenant()
    async with key_client(tenant["id"]) as theirs:
        assert_problem(await theirs.get("/retention"), 403, code="forbidden")
        assert_problem(await theirs.post("/retention/runs"), 403, code="forbidden")

"""`hookfast retention`: ages, past runs, and a run that needs Temporal."""

from __future__ import annotations

import pytest

from hookfast.clock import utc_now
from hookfast.ids import new_id
from hookfast.retention.ages import cutoffs
from hookfast.storage.retention import retention_runs
from hookfast.storage.tables import RetentionRun
from tests.integration.cli.conftest import Run
from tests.integration.storage.retention.old_rows import AGES
from tests.support.api_server import ApiServer

pytestmark = pytest.mark.anyio


async def test_retention_shows_ages_runs_and_undropped_partitions(
    hookfast: Run, served: ApiServer
) -> None:
    before = await hookfast("retention", "show")
    assert before.code == 0, before.err
    assert "audit             365 d" in before.out
    assert before.err == "No run yet.\n"
    now = utc_now()
    run_id = new_id("ret", now)
    run = RetentionRun(
        id=run_id, status="running", dry_run=True, workflow_id="retention-1", started_at=now
    )
    pin = {"partition": "events_20261001", "reason": "The delivery dlv_1 (paused) is kept."}
    async with served.context.database.write() as connection:
        await retention_runs.begin(connection, run, cutoffs=cutoffs(now, AGES))
        for rows in (400, 600):
            await retention_runs.count_dropped(connection, run_id, "events", rows=rows)
        await retention_runs.set_pinned(connection, run_id, "events", [pin])
        await retention_runs.count_figures(connection, run_id, rolled_up=1_234, deleted=5)
        await retention_runs.count_corrected(connection, run_id, gauges=2)
        await retention_runs.record_comparison(connection, run_id, endpoints=7, hours=1)
    shown = await hookfast("retention", "show")
    line = shown.out.splitlines()[-1]
    assert line.startswith(run_id)
    assert line.split()[-7:] == ["running,", "dry", "run", "1,000", "0", "2", "1,234"]
    assert shown.err.splitlines() == [
        "Corrected 2 gauges that differed from the rows; the log has the endpoints. Please "
        "report it.",
        "In 1 of the last 24 hours, figures differ from the rows; the log says which. Please "
        "report it.",
        "events_20261001 was not dropped: The delivery dlv_1 (paused) is kept.",
    ]
    (found,) = (await hookfast("retention", "show", "--json")).json["runs"]
    assert found["id"] == run_id


async def test_retention_run_that_cannot_start_is_reported(hookfast: Run) -> None:
    failed = await hookfast("retention", "run", "--dry-run")
    assert (failed.code, failed.out) == (1, "")
    assert "Temporal is away; nothing was started." in failed.error_text

"""A run of retention, as its workflow does it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from temporalio.testing import ActivityEnvironment

from activities.retention import RetentionActivities
from hookfast.ids import new_id
from hookfast.retention.ages import SWEEPS, RetentionRunInput, SweepInput, Swept
from hookfast.storage.database.engine import Database
from tests.integration.storage.retention.old_rows import AGES, NOW


def activity_at(now: datetime) -> ActivityEnvironment:
    """Return an environment in which Temporal starts activities at this time."""
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, started_time=now)
    return environment


async def run(
    database: Database,
    *,
    ages: Mapping[str, timedelta] = AGES,
    now: datetime = NOW,
    dry_run: bool = False,
    only: Collection[str] = SWEEPS,
) -> dict[str, Swept]:
    """Run retention as the workflow does, with all sweeps or only some of them."""
    retention = RetentionActivities(database=database, ages=ages, clock=lambda: now)
    environment = activity_at(now)
    input = RetentionRunInput(new_id("ret", now), dry_run)
    await environment.run(retention.begin_retention, input)
    if not dry_run:
        await environment.run(retention.prepare_retention, input)
    for name in (one for one in SWEEPS if one in only):
        while not (
            await environment.run(retention.sweep_rows, SweepInput(input.run_id, name, dry_run))
        ).done:
            pass
    state = await environment.run(retention.finish_retention, input)
    assert [swept.name for swept in state.swept] == list(SWEEPS)
    return {swept.name: swept for swept in state.swept}

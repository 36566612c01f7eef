"""A run of retention, as its workflow does it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from temporalio.testing import ActivityEnvironment

from activities.retention import RetentionActivities
from hookfast.ids import new_id
from hookfast.retention.ages import SWEEPS, RetentionRunInput, SweepInput, Swept
from hookfast.storage.database.engine import Database
from tests.integration.storage.retention.old_rows import AGES, NOW


async def run(
    database: Database,
    *,
    ages: Mapping[str, timedelta] = AGES,
    now: datetime = NOW,
    dry_run: bool = False,
    only: Collection[str] = SWEEPS,
) -> dict[str, Swept]:
    """A whole run, as the workflow does it, or only some of its sweeps."""
    done = RetentionActivities(database=database, ages=ages, clock=lambda: now)
    environment = ActivityEnvironment()
    order = RetentionRunInput(new_id("ret", now), dry_run)
    await environment.run(done.begin_retention, order)
    if not dry_run:
        await environment.run(done.prepare_retention, order)
    for name in (one for one in SWEEPS if one in only):
        while not (
            await environment.run(done.sweep_rows, SweepInput(order.run_id, name, dry_run))
        ).done:
            pass
    state = await environment.run(done.finish_retention, order)
    assert [swept.name for swept in state.swept] == list(SWEEPS)
    return {swept.name: swept for swept in state.swept}

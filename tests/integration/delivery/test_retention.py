"""Retention in a whole worker: its schedule, its results, and long runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from temporalio.client import Client, ScheduleOverlapPolicy
from temporalio.testing import WorkflowEnvironment

from hookfast.clock import utc_now
from hookfast.dispatch import retention_schedule, schedules
from hookfast.ids import new_id
from hookfast.retention.ages import (
    SCHEDULE_ID,
    SWEEPS,
    WORKFLOW_TYPE,
    RetentionInput,
    RetentionState,
)
from hookfast.retention.daily import SCHEDULE_ID as UPKEEP_SCHEDULE_ID
from hookfast.storage.retention import retention_runs
from hookfast.storage.tables import Attempt, Delivery, Event
from hookfast.workflow_request import CONTROL_QUEUE
from tests.integration.delivery.conftest import Stack
from tests.integration.storage.retention.old_rows import (
    add_attempt,
    add_delivery,
    add_event,
    left,
    number_of,
)
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]


@pytest.fixture
async def unscheduled(temporal: WorkflowEnvironment, stack: Stack) -> AsyncIterator[Client]:
    """A client whose server's schedules are deleted after the test, for the tests that follow."""
    yield temporal.client
    for schedule_id in (SCHEDULE_ID, UPKEEP_SCHEDULE_ID):
        await temporal.client.get_schedule_handle(schedule_id).delete()


async def add_old_deliveries(stack: Stack) -> str:
    """Store old deliveries, three delivered and one paused, with events; return the paused one."""
    at = utc_now() - timedelta(days=40)
    for _ in range(3):
        delivery = await add_delivery(
            stack.database, await add_event(stack.database, at), at, ended=at
        )
        await add_attempt(stack.database, delivery, at)
    event = await add_event(stack.database, at)
    return await add_delivery(stack.database, event, at, status="paused")


async def test_nightly_schedule_runs_retention_and_reports_what_it_deleted(
    stack: Stack, unscheduled: Client
) -> None:
    paused = await add_old_deliveries(stack)
    await asyncio.gather(*(schedules.ensure(unscheduled, SCHEDULE_ID) for _ in range(3)))
    handle = unscheduled.get_schedule_handle(SCHEDULE_ID)
    described = await handle.describe()
    assert described.schedule.policy.overlap is ScheduleOverlapPolicy.SKIP
    assert {(at.hour, at.minute) for at in described.info.next_action_times} == {(3, 0)}
    assert await retention_schedule.next_run(unscheduled) == described.info.next_action_times[0]

    await handle.trigger()

    async def started() -> Any:
        return (await handle.describe()).info.recent_actions

    (action,) = await eventually(started)
    workflow = unscheduled.get_workflow_handle(
        action.action.workflow_id, result_type=RetentionState
    )
    state = await workflow.result()
    swept = {one.name: (one.deleted, one.kept) for one in state.swept}
    assert swept["attempts"] == (3, 0)
    assert swept["deliveries"] == (3, 1)
    assert swept["events"] == (3, 1)
    assert await left(stack.database, Delivery) == {paused}
    assert await number_of(stack.database, Event) == 1
    async with stack.database.read() as connection:
        (run,) = await retention_runs.list_newest(connection, limit=10)
    assert (run.run.id, run.run.status, run.run.hours_different) == (state.run_id, "done", 0)
    assert [(sweep.name, sweep.done) for sweep in run.sweeps] == [(name, True) for name in SWEEPS]
    await handle.pause()
    assert await retention_schedule.next_run(unscheduled) is None


async def test_a_long_run_continues_as_new_and_keeps_its_counts(stack: Stack) -> None:
    await add_old_deliveries(stack)
    run_id = new_id("ret")
    handle = await stack.client.start_workflow(
        WORKFLOW_TYPE,
        RetentionInput(run_id=run_id, activities=2),
        id=f"retention/{run_id}",
        task_queue=CONTROL_QUEUE,
        result_type=RetentionState,
    )
    state = await handle.result()
    assert (await handle.describe()).run_id != handle.first_execution_run_id
    assert (state.run_id, [one.name for one in state.swept]) == (run_id, list(SWEEPS))
    assert sum(one.deleted for one in state.swept) == 9


async def test_a_dry_run_counts_and_deletes_nothing(stack: Stack) -> None:
    await add_old_deliveries(stack)
    run_id = new_id("ret")
    await retention_schedule.start(stack.client, run_id, dry_run=True)
    workflow = stack.client.get_workflow_handle(
        retention_schedule.workflow_id(run_id), result_type=RetentionState
    )
    assert sum(one.deleted for one in (await workflow.result()).swept) == 9
    tables = (Event, Delivery, Attempt)
    assert [await number_of(stack.database, table) for table in tables] == [4, 4, 3]

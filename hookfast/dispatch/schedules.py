"""Temporal Schedules that start something once a day."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import structlog
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleCalendarSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleRange,
    ScheduleSpec,
)
from temporalio.service import RPCError

from hookfast.dispatch.start import RPC_TIMEOUT
from hookfast.workflow_request import CONTROL_QUEUE

_CATCHUP = timedelta(hours=12)
_PAUSE_SECONDS = 30.0

log = structlog.get_logger()


async def ensure(client: Client, schedule_id: str, schedule: Schedule) -> None:
    """Make the schedule, unless it is there: any number of workers may call this, and one that was
    paused or changed by hand stays so. While Temporal is away it tries again, so run it beside the
    worker's other work."""
    while True:
        try:
            await client.create_schedule(schedule_id, schedule, rpc_timeout=RPC_TIMEOUT)
        except ScheduleAlreadyRunningError:
            return
        except (RPCError, RuntimeError) as error:  # RuntimeError: a lazy client cannot connect
            log.warning(
                "A schedule is not made yet.", schedule=schedule_id, error=type(error).__name__
            )
            await asyncio.sleep(_PAUSE_SECONDS)
        else:
            log.info("A schedule is made.", schedule=schedule_id)
            return


def daily(workflow_type: str, order: Any, *, workflow_id: str, hour: int, summary: str) -> Schedule:
    """The schedule of a workflow that runs each day at `hour` (UTC). A day whose start was missed
    by up to 12 hours is caught up; one that takes longer than a day is not started twice."""
    return Schedule(
        action=ScheduleActionStartWorkflow(
            workflow_type,
            order,
            id=workflow_id,
            task_queue=CONTROL_QUEUE,
            static_summary=summary,
        ),
        spec=ScheduleSpec(calendars=[ScheduleCalendarSpec(hour=[ScheduleRange(hour)])]),
        policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP, catchup_window=_CATCHUP),
    )

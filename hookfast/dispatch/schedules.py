"""The Temporal Schedules, each of which starts a workflow once a day."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

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
from hookfast.outage_log import TEMPORAL
from hookfast.retention import ages, daily
from hookfast.workflow_request import CONTROL_QUEUE

_CATCHUP = timedelta(hours=12)
_PAUSE_SECONDS = 30.0

log = structlog.get_logger()


async def ensure(client: Client, schedule_id: str) -> None:
    """Create one of SCHEDULES unless it exists. Any number of workers may call this; a schedule
    that was paused or changed by hand stays so. It tries again while Temporal is away, so run it in
    the background."""
    while True:
        try:
            await client.create_schedule(
                schedule_id, SCHEDULES[schedule_id], rpc_timeout=RPC_TIMEOUT
            )
        except ScheduleAlreadyRunningError:
            return
        except (RPCError, RuntimeError) as error:  # RuntimeError: a lazy client cannot connect
            TEMPORAL.failed(
                "A schedule could not be created yet.",
                schedule=schedule_id,
                error=type(error).__name__,
            )
            await asyncio.sleep(_PAUSE_SECONDS)
        else:
            log.info("A schedule was created.", schedule=schedule_id)
            return


def _daily(
    workflow_type: str, input: Any, *, workflow_id: str, hour: int, summary: str
) -> Schedule:
    """The schedule of a workflow that runs each day at `hour` (UTC). A start that was missed by up
    to 12 hours is caught up. A workflow that takes longer than a day is not started twice."""
    return Schedule(
        action=ScheduleActionStartWorkflow(
            workflow_type,
            input,
            id=workflow_id,
            task_queue=CONTROL_QUEUE,
            static_summary=summary,
        ),
        spec=ScheduleSpec(calendars=[ScheduleCalendarSpec(hour=[ScheduleRange(hour)])]),
        policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP, catchup_window=_CATCHUP),
    )


SCHEDULES: Final[Mapping[str, Schedule]] = {
    ages.SCHEDULE_ID: _daily(
        ages.WORKFLOW_TYPE,
        ages.RetentionInput(),
        workflow_id=ages.WORKFLOW_ID,
        hour=3,
        summary="retention",
    ),
    daily.SCHEDULE_ID: _daily(
        daily.WORKFLOW_TYPE,
        daily.DailyInput(),
        workflow_id=daily.WORKFLOW_ID,
        hour=6,
        summary="daily",
    ),
}
"""Every schedule, by its id in Temporal."""

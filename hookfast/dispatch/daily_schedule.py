"""The Temporal Schedule that starts the daily upkeep, at 06:00 UTC."""

from __future__ import annotations

from temporalio.client import Client

from hookfast.dispatch import schedules
from hookfast.retention.daily import SCHEDULE_ID, WORKFLOW_ID, WORKFLOW_TYPE, DailyInput

_HOUR = 6


async def ensure_schedule(client: Client) -> None:
    """Make the schedule, unless it is there; see `schedule.ensure`."""
    daily = schedules.daily(
        WORKFLOW_TYPE, DailyInput(), workflow_id=WORKFLOW_ID, hour=_HOUR, summary="daily upkeep"
    )
    await schedules.ensure(client, SCHEDULE_ID, daily)

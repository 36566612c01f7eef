"""When retention runs: by a Temporal Schedule at 03:00 UTC, and whenever an operator says so."""

from __future__ import annotations

from datetime import datetime

from temporalio.client import Client
from temporalio.service import RPCError

from hookfast.dispatch import schedules
from hookfast.dispatch.start import RPC_TIMEOUT
from hookfast.errors import Unavailable
from hookfast.retention.ages import SCHEDULE_ID, WORKFLOW_ID, WORKFLOW_TYPE, RetentionInput
from hookfast.workflow_request import CONTROL_QUEUE

_HOUR = 3


async def ensure_schedule(client: Client) -> None:
    """Make the schedule, unless it is there; see `schedule.ensure`."""
    nightly = schedules.daily(
        WORKFLOW_TYPE,
        RetentionInput(),
        workflow_id=WORKFLOW_ID,
        hour=_HOUR,
        summary="retention",
    )
    await schedules.ensure(client, SCHEDULE_ID, nightly)


def workflow_id(run_id: str) -> str:
    """The workflow of a run that was asked for."""
    return f"{WORKFLOW_ID}/{run_id}"


async def start(client: Client, run_id: str, *, dry_run: bool) -> None:
    """Run it now. One that is under way does not mind: each row goes once. Raises Unavailable while
    Temporal is away."""
    try:
        await client.start_workflow(
            WORKFLOW_TYPE,
            RetentionInput(dry_run=dry_run, run_id=run_id),
            id=workflow_id(run_id),
            task_queue=CONTROL_QUEUE,
            static_summary="retention, dry run" if dry_run else "retention",
            rpc_timeout=RPC_TIMEOUT,
        )
    except (RPCError, RuntimeError) as error:  # RuntimeError: a lazy client cannot connect
        raise Unavailable("Temporal is away; nothing was started. Try again.") from error


async def next_run(client: Client) -> datetime | None:
    """When the schedule runs it next; None where there is none, it is paused, or Temporal is away:
    there is no more to say than that it is not known."""
    try:
        handle = client.get_schedule_handle(SCHEDULE_ID)
        described = await handle.describe(rpc_timeout=RPC_TIMEOUT)
    except (RPCError, RuntimeError):
        return None
    if described.schedule.state.paused:
        return None
    return next(iter(described.info.next_action_times), None)

"""Run retention when an operator requests it, and say when its schedule runs it next."""

from __future__ import annotations

from datetime import datetime

from temporalio.client import Client
from temporalio.service import RPCError

from hookfast.dispatch.start import RPC_TIMEOUT
from hookfast.errors import Unavailable
from hookfast.retention.ages import SCHEDULE_ID, WORKFLOW_ID, WORKFLOW_TYPE, RetentionInput
from hookfast.workflow_request import CONTROL_QUEUE


def workflow_id(run_id: str) -> str:
    """The workflow id of a run that was requested."""
    return f"{WORKFLOW_ID}/{run_id}"


async def start(client: Client, run_id: str, *, dry_run: bool) -> None:
    """Start a run now. It may overlap with another, because each row is deleted once. Raises
    Unavailable while Temporal is away."""
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
    """When the schedule starts the next run. None if that is unknown: there is no schedule, it is
    paused, or Temporal is away."""
    try:
        handle = client.get_schedule_handle(SCHEDULE_ID)
        described = await handle.describe(rpc_timeout=RPC_TIMEOUT)
    except (RPCError, RuntimeError):
        return None
    if described.schedule.state.paused:
        return None
    return next(iter(described.info.next_action_times), None)

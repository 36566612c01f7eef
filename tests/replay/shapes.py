"""The shapes that workflow histories can have. `python -m tests.replay.shapes` records each of them
from a real server into `tests/replay/histories/`.

It leaves existing histories as they are: workflows that began when they were saved may still run.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
import tempfile
from collections.abc import Awaitable, Callable
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, patch

from temporalio.client import WorkflowFailureError

from activities.attempt import AttemptRunner
from hookfast.clock import utc_now
from hookfast.deliveries.messages import workflow_id
from hookfast.settings.settings import Settings
from hookfast.storage.database.engine import Database
from hookfast.storage.database.migrate import migrate
from hookfast.storage.deliveries.outgoing import OutgoingLoader
from hookfast.storage.endpoints import endpoint_state
from tests.integration.delivery.conftest import Stack, running_stack
from tests.integration.delivery.plans import PATIENT
from tests.replay.batch_shapes import BATCH_SHAPES, QUICK
from tests.replay.circuit_shapes import CIRCUIT_SHAPES
from tests.replay.job_shapes import JOB_SHAPES
from tests.replay.mail_shapes import MAIL_SHAPES
from tests.replay.retention_shapes import RETENTION_SHAPES
from tests.replay.signal_shapes import SIGNAL_SHAPES
from tests.support.receiver import Receiver
from tests.support.temporal_server import temporal_server
from tests.support.waiting import PATIENCE

HISTORIES = Path(__file__).with_name("histories")
_LIBRARIES = re.compile(r'(File \\")/[^"\\]*/(?:site-packages|python3\.\d+)/')
LONG = {"delays_seconds": [0.02] * 30, "jitter": 0, "retry_on": "all"}


async def delivered_at_once(stack: Stack) -> str:
    return await stack.deliver(await stack.endpoint("/ok"))


async def delivered_in_the_regular_lane(stack: Stack) -> str:
    return await stack.deliver(await stack.endpoint("/ok", timeout=20))


async def delivered_after_two_retries(stack: Stack) -> str:
    return await stack.deliver(await stack.endpoint("/fail-first/2", plan=QUICK))


async def dead_after_all_retries(stack: Stack) -> str:
    return await stack.deliver(await stack.endpoint("/status/500", plan=QUICK))


async def continued_as_new(stack: Stack) -> str:
    return await stack.deliver(
        await stack.endpoint("/status/500", plan=LONG, circuit={"failure_threshold": 1_000})
    )


async def gone(stack: Stack) -> str:
    return await stack.deliver(await stack.endpoint("/status/410"))


async def scheduled(stack: Stack) -> str:
    due = utc_now() + timedelta(seconds=1)
    return await stack.deliver(await stack.endpoint("/ok"), deliver_at=due)


async def cancelled_while_scheduled(stack: Stack) -> str:
    due = utc_now() + timedelta(days=1)
    delivery = await stack.deliver(await stack.endpoint("/ok"), deliver_at=due)
    await stack.until_relayed(delivery)
    await stack.workflow(delivery).signal("cancel")
    return delivery


async def paused_and_cancelled_through_its_row(stack: Stack) -> str:
    delivery = await stack.deliver_until("retrying", "/status/500", plan=PATIENT)
    await stack.request(delivery, "pause")
    await stack.until_relayed(delivery)
    await stack.request(delivery, "cancel")
    return delivery


async def resent_through_its_row_after_it_had_ended(stack: Stack) -> str:
    delivery = await stack.deliver_until("gone", "/status/410")
    await stack.until_closed(delivery)
    async with stack.database.write() as connection:
        row = await stack.row(delivery)
        assert await endpoint_state.enable(connection, row.endpoint_id, now=utc_now())
    await stack.request(delivery, "resend")
    await stack.until_relayed(delivery)
    return delivery


async def cancelled_by_temporal(stack: Stack) -> str:
    delivery = await stack.deliver_until("retrying", "/status/500", plan=PATIENT)
    await stack.workflow(delivery).cancel()
    return delivery


async def moved_to_the_regular_lane_when_the_database_failed(stack: Stack) -> str:
    load = OutgoingLoader.load
    failures = iter([OSError("the database is away")])

    async def failing_once(*args: Any, **options: Any) -> Any:
        for error in failures:
            raise error
        return await load(*args, **options)

    with patch.object(OutgoingLoader, "load", failing_once):
        delivery = await stack.deliver_until("delivered", "/ok")
    return delivery


async def recorded_later_when_the_database_failed(stack: Stack) -> str:
    with patch.object(AttemptRunner, "_try_to_record", AsyncMock(return_value=None)):
        delivery = await stack.deliver_until("delivered", "/ok")
    return delivery


async def paused_resent_and_resumed(stack: Stack) -> str:
    delivery = await stack.deliver_until("retrying", "/fail-first/2", plan=QUICK)
    await stack.signal(delivery, "pause", until="paused")
    await stack.workflow(delivery).signal("resend")
    await stack.receiver.wait_for(2)
    await stack.workflow(delivery).signal("resume")
    return delivery


async def resent_while_waiting(stack: Stack) -> str:
    delivery = await stack.deliver_until("retrying", "/fail-first/2", plan=PATIENT)
    for count in (2, 3):
        await stack.workflow(delivery).signal("resend")
        await stack.receiver.wait_for(count)
    return delivery


async def moved_when_the_fast_lane_was_full(stack: Stack) -> str:
    endpoint = await stack.endpoint("/slow/0.5")
    deliveries = await stack.deliver_together(endpoint, 20)
    await stack.until_all(deliveries, "delivered")
    for delivery in deliveries:
        history = await stack.workflow(delivery).fetch_history()
        if any(
            event.HasField("activity_task_scheduled_event_attributes") for event in history.events
        ):
            return delivery
    raise AssertionError("nothing left the fast lane")


SHAPES: tuple[Callable[[Stack], Awaitable[str]], ...] = (
    delivered_at_once,
    delivered_in_the_regular_lane,
    delivered_after_two_retries,
    dead_after_all_retries,
    continued_as_new,
    gone,
    scheduled,
    cancelled_while_scheduled,
    paused_and_cancelled_through_its_row,
    resent_through_its_row_after_it_had_ended,
    cancelled_by_temporal,
    moved_to_the_regular_lane_when_the_database_failed,
    recorded_later_when_the_database_failed,
    paused_resent_and_resumed,
    resent_while_waiting,
    moved_when_the_fast_lane_was_full,
    *BATCH_SHAPES,
    *CIRCUIT_SHAPES,
    *JOB_SHAPES,
    *MAIL_SHAPES,
    *RETENTION_SHAPES,
    *SIGNAL_SHAPES,
)
"""Each function returns the id of a delivery, or of another workflow that has begun."""


async def record(folder: Path) -> None:
    """Record the history of every shape that is not in the folder yet."""
    missing = [shape for shape in SHAPES if not (folder / f"{shape.__name__}.json").exists()]
    for shape in missing:
        with tempfile.TemporaryDirectory() as home:
            settings = Settings(
                home=Path(home),
                first_attempts="batch" if shape in BATCH_SHAPES else "workflow",
                encryption_keys=_KEY,
                allowed_private_networks=(ip_network("127.0.0.0/8"),),
                allow_http=True,
                max_concurrent_attempts=48,  # a third is one endpoint's share of the fast lane
                mail_gather=timedelta(seconds=0.3),
                mail_digest_every=timedelta(seconds=6),
                shutdown_grace=timedelta(seconds=5),
            )
            async with (
                temporal_server() as temporal,
                Database(settings.resolved_database_url) as database,
                Receiver() as receiver,
            ):
                await migrate(database)
                async with (
                    asyncio.timeout(PATIENCE),
                    running_stack(temporal, settings, database, receiver) as stack,
                ):
                    workflow = await shape(stack)
                    if "/" not in workflow:
                        await stack.until_closed(workflow)
                        workflow = workflow_id(workflow)
                    first = await _first_run(stack, workflow)
                    (folder / f"{shape.__name__}.json").write_text(first + "\n")
        print(f"recorded {shape.__name__}", file=sys.stderr)


async def _first_run(stack: Stack, workflow: str) -> str:
    with contextlib.suppress(WorkflowFailureError):  # dead, gone, cancelled
        await stack.client.get_workflow_handle(workflow).result()
    description = await stack.client.get_workflow_handle(workflow).describe()
    run_id = description.raw_description.workflow_execution_info.first_run_id
    handle = stack.client.get_workflow_handle(workflow, run_id=run_id)
    return without_folders((await handle.fetch_history()).to_json())


def without_folders(history: str) -> str:
    """Return the history without this machine's folders, which its stack traces name."""
    root = Path(__file__).parents[2]
    return _LIBRARIES.sub(r"\1", history).replace(f"{root}/", "")


_KEY = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="  # tests.support.seed.KEY

if __name__ == "__main__":
    HISTORIES.mkdir(exist_ok=True)
    asyncio.run(record(HISTORIES))

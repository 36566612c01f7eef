"""The worker process: three Temporal workers, the outbox relay, and sweeps for lost deliveries.

- `deliveries` runs the delivery workflows and, inside their tasks, the fast lane's attempts.
- `retries` runs all other attempts, so that slow receivers cannot delay first attempts.
- `control` runs circuits, jobs, mail and retention, so that no flood of deliveries delays them.

Client and workers share one connection. That lets Temporal hand a started workflow directly back to
this process (eager start), where its event is still in memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import structlog
from sqlalchemy.exc import SQLAlchemyError
from temporalio.client import Client
from temporalio.runtime import Runtime
from temporalio.worker import (
    UnsandboxedWorkflowRunner,
    Worker,
    WorkerDeploymentConfig,
    WorkflowRunner,
)

from activities.failure_log import FailedForDatabase
from activities.worker_parts import WorkerParts
from hookfast.deliveries.messages import DELIVERIES_QUEUE, RETRIES_QUEUE
from hookfast.dispatch import lane_sweep, schedules
from hookfast.dispatch.sweep import requeue_lost, send_heartbeats
from hookfast.logs import configure_logging
from hookfast.process import (
    event_loop_factory,
    freeze_startup,
    new_process_id,
    return_freed_blocks,
)
from hookfast.settings.settings import Settings, load_settings
from hookfast.stop_timer import end_within
from hookfast.storage.counting import folding
from hookfast.storage.database.engine import Database
from hookfast.storage.database.migrate import migrate
from hookfast.storage.database.server_clock import using_server_clock
from hookfast.storage.database.watch import watching as watching_database
from hookfast.storage.figures import workers
from hookfast.telemetry import providers
from hookfast.telemetry.metrics_server import serving_metrics
from hookfast.telemetry.temporal_metrics import TemporalMetrics
from hookfast.temporal.availability import watching as watching_temporal
from hookfast.temporal.connection import connect_when_up
from hookfast.temporal.versioning import deployment_of
from hookfast.version import VERSION
from hookfast.workflow_request import CONTROL_QUEUE
from workflows.batch import BatchWorkflow
from workflows.circuit_breaker import CircuitBreakerWorkflow
from workflows.daily import DailyWorkflow
from workflows.delivery import DeliveryWorkflow
from workflows.job import JobWorkflow
from workflows.owner_mail import OwnerMailWorkflow
from workflows.retention import RetentionWorkflow

_LEAVE_SECONDS = 5.0

log = structlog.get_logger()


@asynccontextmanager
async def running_worker(
    settings: Settings,
    client: Client,
    database: Database,
    *,
    workflow_runner: WorkflowRunner | None = None,
    deployment: WorkerDeploymentConfig | None = None,
) -> AsyncIterator[None]:
    """Run everything that a worker process runs, while the block lasts. With `deployment`, Temporal
    gives it tasks of workflows only while its version is the current one.

    On leaving, attempts in progress end and are recorded, within `settings.shutdown_grace`; those
    that do not end in time are cancelled, and made again by another worker with the same id.
    """
    parts = WorkerParts(settings, client, database)
    doorbell = parts.doorbell
    worker_id = new_process_id()
    try:
        async with _together(
            _temporal_workers(
                settings, client, parts, workflow_runner=workflow_runner, deployment=deployment
            ),
            [
                parts.relay.run(),
                parts.workflow_starter.run(),
                folding.fold_forever(database),
                send_heartbeats(database, worker_id, parts.pace),
                requeue_lost(database),
                lane_sweep.move_up_forever(database, doorbell),
                lane_sweep.inspect_forever(
                    database, doorbell, dead_letters=settings.ordered_dead_letters
                ),
                *(schedules.ensure(client, one) for one in schedules.SCHEDULES),
            ],
        ):
            yield
    finally:
        # /readyz and other relays learn of it at once. If the database does not answer, leases and
        # heartbeats end by themselves, and workflows repeat their records.
        with contextlib.suppress(SQLAlchemyError, TimeoutError):
            async with asyncio.timeout(_LEAVE_SECONDS):
                await parts.relay.finish()
                async with database.write() as connection:
                    await workers.remove(connection, worker_id)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LEAVE_SECONDS):
                await parts.batches.close()
                await parts.recorder.close()
        await parts.runner.close()
        await doorbell.close()
        await parts.sender.aclose()


def _temporal_workers(
    settings: Settings,
    client: Client,
    parts: WorkerParts,
    *,
    workflow_runner: WorkflowRunner | None,
    deployment: WorkerDeploymentConfig | None,
) -> list[Worker]:
    """Return the three workers, each with a task queue and limits of its own."""
    deliveries, batches = parts.deliveries, parts.batches
    worker = partial(
        Worker,
        client,
        # Our workflows import nothing that could break determinism (import-linter checks), and the
        # sandbox costs 0.6-1.2 ms a run where this costs 0.02 ms. Tests run sandboxed.
        workflow_runner=workflow_runner or UnsandboxedWorkflowRunner(),
        graceful_shutdown_timeout=settings.drain_time,
        deployment_config=deployment,
        # by default a hash of all imported code, which takes 0.1 s of CPU
        build_id=None if deployment else VERSION,
    )
    return [
        worker(
            task_queue=DELIVERIES_QUEUE,
            workflows=[DeliveryWorkflow, BatchWorkflow],
            activities=[deliveries.step, batches.attempt_batch],
            # Twice the slots of the fast lane: when it is full of slow receivers, batches and the
            # tasks of other workflows continue.
            max_concurrent_workflow_tasks=2 * settings.max_concurrent_attempts,
            max_concurrent_local_activities=2 * settings.max_concurrent_attempts,
            max_cached_workflows=2_000,
        ),
        worker(
            task_queue=RETRIES_QUEUE,
            activities=[deliveries.step, deliveries.record_attempt, batches.record_batch],
            max_concurrent_activities=settings.max_concurrent_attempts,
        ),
        # activities that are few and long
        worker(
            task_queue=CONTROL_QUEUE,
            workflows=[
                CircuitBreakerWorkflow,
                JobWorkflow,
                OwnerMailWorkflow,
                RetentionWorkflow,
                DailyWorkflow,
            ],
            activities=parts.control,
            max_concurrent_activities=settings.max_concurrent_control,
        ),
    ]


@asynccontextmanager
async def _together(
    workers: Sequence[Worker], background: Sequence[Coroutine[Any, Any, None]]
) -> AsyncIterator[None]:
    """Run these workers and endless tasks while the block lasts. If one fails, the block ends with
    its error.

    All are stopped at once: otherwise the relay's last starts would use up the time of attempts,
    and each worker would accept new work during the grace period of those before it."""
    async with contextlib.AsyncExitStack() as running:
        for one in workers:
            await running.enter_async_context(one)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in background]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*(one.shutdown() for one in workers))


async def run(settings: Settings) -> None:
    """Run until SIGINT or SIGTERM, then drain."""
    deployment = deployment_of(os.environ)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    logging.getLogger("temporalio.activity").addFilter(FailedForDatabase())
    telemetry = providers.start("worker", by_tenant=settings.metrics_by_tenant)
    temporal_metrics = TemporalMetrics(
        pushes=telemetry.pushes_metrics and settings.temporal_metrics == "push"
    )
    Runtime.set_default(temporal_metrics.runtime)
    token = settings.metrics_token
    async with (
        serving_metrics(
            telemetry,
            temporal_metrics,
            host=settings.host,
            port=settings.worker_metrics_port,
            token=None if token is None else token.get_secret_value(),
        ),
        Database(settings.resolved_database_url) as database,
        using_server_clock(database),
    ):
        await migrate(database)
        client = await connect_when_up(settings.temporal_compression, stop)
        if client is None:
            return
        async with (
            watching_temporal(client),
            watching_database(database),
            running_worker(settings, client, database, deployment=deployment),
        ):
            freeze_startup()
            log.info("The worker is ready.", version=VERSION, database=database.kind)
            await stop.wait()
            log.info("The worker is shutting down.", grace=str(settings.shutdown_grace))
            end_within(settings.shutdown_grace)


def main() -> None:
    """Run `hookfast worker` or `python worker.py`."""
    return_freed_blocks(1024 * 1024)
    settings = load_settings()
    configure_logging(settings, process="worker", attempts=settings.log_attempts)
    with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
        runner.run(run(settings))


if __name__ == "__main__":
    main()

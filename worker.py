"""The worker process: three Temporal workers, the outbox relay, and sweeps for lost deliveries.

- `deliveries` runs the delivery workflows and, inside their tasks, the fast lane's first attempts.
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
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
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

from activities.attempt import AttemptRunner
from activities.batch import BatchActivities
from activities.circuit_breaker import CircuitActivities
from activities.daily import DailyActivities
from activities.delivery import DeliveryActivities
from activities.failure_log import FailedForDatabase
from activities.fast_lane import FastLane
from activities.job import JobActivities
from activities.owner_mail import MailActivities
from activities.retention import RetentionActivities
from hookfast.deliveries.messages import DELIVERIES_QUEUE, RETRIES_QUEUE
from hookfast.dispatch import lane_sweep, retention_schedule, schedules
from hookfast.dispatch.batches import Batches
from hookfast.dispatch.first_attempts import FirstAttempts
from hookfast.dispatch.lateness import Lateness
from hookfast.dispatch.relay import Relay
from hookfast.dispatch.start_window import StartWindow
from hookfast.dispatch.sweep import requeue_lost, send_heartbeats
from hookfast.dispatch.unhealthy_endpoints import UnhealthyEndpoints
from hookfast.dispatch.workflow_starter import workflow_starter_for
from hookfast.logs import configure_logging
from hookfast.mail import transport_of
from hookfast.process import event_loop_factory, freeze_startup, new_process_id
from hookfast.sender import AddressGuard, OwnAddress, Sender
from hookfast.settings.settings import Settings, load_settings
from hookfast.signing.portal_link import OwnerLinks
from hookfast.stop_timer import end_within
from hookfast.storage.database.doorbell import doorbell_for
from hookfast.storage.database.engine import Database
from hookfast.storage.database.migrate import migrate
from hookfast.storage.database.server_clock import using_server_clock
from hookfast.storage.database.watch import watching as watching_database
from hookfast.storage.deliveries.outgoing import OutgoingLoader
from hookfast.storage.deliveries.recorder import Recorder, Wakeup
from hookfast.storage.figures import workers
from hookfast.storage.keys.keyring import keyring_of
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
    loader = OutgoingLoader(database, keyring_of(settings))
    workflow_starter = workflow_starter_for(settings, client, database)
    sender = Sender(
        guard=AddressGuard(
            settings.allowed_private_networks,
            denied_networks=settings.denied_networks,
            ports=settings.port_ranges,
            own=OwnAddress.of(settings.resolved_public_url),
        ),
        excerpt_bytes=settings.response_excerpt_bytes,
        header_bytes=settings.attempt_header_bytes,
        proxy=settings.parsed_egress_proxy,
    )
    doorbell = doorbell_for(database)

    def on_commit(news: Wakeup) -> None:
        if news & Wakeup.CIRCUIT:
            loader.forget_primed()
            workflow_starter.wake()
        if news & Wakeup.OUTBOX:
            doorbell.ring()

    recorder = Recorder(
        database,
        policy=settings.circuit_policy,
        dead_letters=settings.ordered_dead_letters,
        on_commit=on_commit,
    )
    lateness, window = Lateness(), StartWindow()
    first_attempts = FirstAttempts(settings.first_attempts)
    unhealthy = UnhealthyEndpoints()
    runner = AttemptRunner(
        loader=loader,
        sender=sender,
        recorder=recorder,
        public_url=settings.resolved_public_url,
    )
    attempts = DeliveryActivities(
        client=client,
        database=database,
        loader=loader,
        runner=runner,
        recorder=recorder,
        fast_lane=FastLane(settings.max_concurrent_attempts),
        held_backstop=settings.held_backstop,
        on_commit=on_commit,
        lateness=lateness,
        window=window,
        dead_letters=settings.ordered_dead_letters,
    )
    batches = Batches(client, on_room=doorbell.wake)
    batch_attempts = BatchActivities(
        client=client,
        database=database,
        loader=loader,
        runner=runner,
        recorder=recorder,
        unhealthy=unhealthy,
        batches=batches,
        on_commit=on_commit,
    )
    relay = Relay(
        client=client,
        database=database,
        loader=loader,
        doorbell=doorbell,
        batch=settings.relay_batch,
        lease=settings.relay_lease,
        fast_lane_timeout=settings.fast_lane_timeout,
        lateness=lateness,
        first_attempts=first_attempts,
        batches=batches,
        window=window,
        unhealthy=unhealthy,
    )
    worker_id = new_process_id()
    try:
        async with _together(
            [
                _deliveries_worker(
                    settings, client, attempts, batch_attempts, workflow_runner, deployment
                ),
                _retries_worker(settings, client, attempts, batch_attempts, deployment),
                _control_worker(settings, client, database, on_commit, workflow_runner, deployment),
            ],
            [
                relay.run(),
                workflow_starter.run(),
                send_heartbeats(database, worker_id, first_attempts),
                requeue_lost(database),
                lane_sweep.move_up_forever(database, doorbell),
                lane_sweep.inspect_forever(
                    database, doorbell, dead_letters=settings.ordered_dead_letters
                ),
                schedules.ensure_daily(client),
                retention_schedule.ensure_schedule(client),
            ],
        ):
            yield
    finally:
        # /readyz and other relays learn of it at once. If the database does not answer, leases and
        # heartbeats end by themselves, and workflows repeat their records.
        with contextlib.suppress(SQLAlchemyError, TimeoutError):
            async with asyncio.timeout(_LEAVE_SECONDS):
                await relay.finish()
                async with database.write() as connection:
                    await workers.remove(connection, worker_id)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LEAVE_SECONDS):
                await batch_attempts.close()
                await recorder.close()
        await runner.close()
        await doorbell.close()
        await sender.aclose()


def _deliveries_worker(
    settings: Settings,
    client: Client,
    attempts: DeliveryActivities,
    batch_attempts: BatchActivities,
    workflow_runner: WorkflowRunner | None,
    deployment: WorkerDeploymentConfig | None,
) -> Worker:
    """Return the worker for delivery workflows and the first attempts inside their tasks."""
    return Worker(
        client,
        task_queue=DELIVERIES_QUEUE,
        workflows=[DeliveryWorkflow, BatchWorkflow],
        activities=[attempts.step, batch_attempts.attempt_batch],
        # Our workflows import nothing that could break determinism (import-linter checks), and the
        # sandbox costs 0.6-1.2 ms a run where this costs 0.02 ms. Tests run sandboxed.
        workflow_runner=workflow_runner or UnsandboxedWorkflowRunner(),
        # Twice the slots of the fast lane: when it is full of slow receivers, batches and the tasks
        # of other workflows continue.
        max_concurrent_workflow_tasks=2 * settings.max_concurrent_attempts,
        max_concurrent_local_activities=2 * settings.max_concurrent_attempts,
        max_cached_workflows=2_000,
        graceful_shutdown_timeout=settings.drain_time,
        deployment_config=deployment,
    )


def _retries_worker(
    settings: Settings,
    client: Client,
    attempts: DeliveryActivities,
    batch_attempts: BatchActivities,
    deployment: WorkerDeploymentConfig | None,
) -> Worker:
    """Return the worker for all other attempts, and for records that failed."""
    return Worker(
        client,
        task_queue=RETRIES_QUEUE,
        activities=[attempts.step, attempts.record_attempt, batch_attempts.record_batch],
        max_concurrent_activities=settings.max_concurrent_attempts,
        graceful_shutdown_timeout=settings.drain_time,
        deployment_config=deployment,
    )


def _control_worker(
    settings: Settings,
    client: Client,
    database: Database,
    on_commit: Callable[[Wakeup], None],
    workflow_runner: WorkflowRunner | None,
    deployment: WorkerDeploymentConfig | None,
) -> Worker:
    """Return the worker for circuits, jobs, owners' mail, the daily run and retention: activities
    that are few and long."""
    circuits = CircuitActivities(
        database=database, policy=settings.circuit_policy, on_commit=on_commit
    )
    jobs = JobActivities(database=database, on_commit=on_commit)
    mail = MailActivities(
        database=database,
        transport=transport_of(settings),
        mail_from=settings.mail_from,
        public_url=settings.resolved_public_url,
        at_once=max(1, settings.max_concurrent_control // 10),
        links=OwnerLinks(keyring_of(settings), settings.owner_link_lifetime)
        if settings.owner_link_lifetime
        else None,
    )
    daily = DailyActivities(database=database.background)
    retention = RetentionActivities(database=database.background, ages=settings.ages)
    return Worker(
        client,
        task_queue=CONTROL_QUEUE,
        workflows=[
            CircuitBreakerWorkflow,
            JobWorkflow,
            OwnerMailWorkflow,
            RetentionWorkflow,
            DailyWorkflow,
        ],
        activities=[*circuits.all, *jobs.all, *mail.all, *daily.all, *retention.all],
        workflow_runner=workflow_runner or UnsandboxedWorkflowRunner(),
        max_concurrent_activities=settings.max_concurrent_control,
        graceful_shutdown_timeout=settings.drain_time,
        deployment_config=deployment,
    )


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
    settings = load_settings()
    configure_logging(settings, process="worker", attempts=settings.log_attempts)
    with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
        runner.run(run(settings))


if __name__ == "__main__":
    main()

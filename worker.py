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
import os
import secrets
import signal
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import structlog
from sqlalchemy.exc import SQLAlchemyError
from temporalio.client import Client
from temporalio.runtime import Runtime
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker, WorkflowRunner

from activities.attempt import AttemptRunner
from activities.batch import BatchActivities
from activities.circuit_breaker import CircuitActivities
from activities.daily import DailyActivities
from activities.delivery import DeliveryActivities
from activities.fast_lane import FastLane
from activities.job import JobActivities
from activities.owner_mail import MailActivities
from activities.retention import RetentionActivities
from hookfast.deliveries.messages import DELIVERIES_QUEUE, RETRIES_QUEUE
from hookfast.dispatch import retention_schedule, schedules
from hookfast.dispatch.batches import Batches
from hookfast.dispatch.first_attempts import FirstAttempts
from hookfast.dispatch.lateness import Lateness
from hookfast.dispatch.relay import Relay
from hookfast.dispatch.sweep import requeue_lost, send_heartbeats
from hookfast.dispatch.unhealthy_endpoints import UnhealthyEndpoints
from hookfast.dispatch.workflow_starter import workflow_starter_for
from hookfast.endpoints.circuit import Policy
from hookfast.garbage import freeze_startup
from hookfast.logs import configure_logging
from hookfast.mail import transport_of
from hookfast.sender import AddressGuard, Sender
from hookfast.settings.settings import Settings, load_settings
from hookfast.signing.portal_link import OwnerLinks
from hookfast.storage.database.doorbell import doorbell_for
from hookfast.storage.database.engine import Database
from hookfast.storage.database.migrate import migrate
from hookfast.storage.deliveries.outgoing import OutgoingLoader
from hookfast.storage.deliveries.recorder import Committed, Recorder
from hookfast.storage.figures import workers
from hookfast.storage.keys.keyring import keyring_of
from hookfast.telemetry import exposition, providers
from hookfast.telemetry.exposition import MetricsServer
from hookfast.telemetry.providers import Telemetry
from hookfast.telemetry.temporal_metrics import TemporalMetrics
from hookfast.temporal import connection as temporal
from hookfast.version import VERSION
from hookfast.workflow_request import CONTROL_QUEUE
from workflows.batch import BatchWorkflow
from workflows.circuit_breaker import CircuitBreakerWorkflow
from workflows.daily import DailyWorkflow
from workflows.delivery import DeliveryWorkflow
from workflows.job import JobWorkflow
from workflows.owner_mail import OwnerMailWorkflow
from workflows.retention import RetentionWorkflow

_RECONNECT_SECONDS = 1.0
_LEAVE_SECONDS = 5.0

log = structlog.get_logger()


@asynccontextmanager
async def running_worker(
    settings: Settings,
    client: Client,
    database: Database,
    *,
    workflow_runner: WorkflowRunner | None = None,
) -> AsyncIterator[None]:
    """Run everything that a worker process runs, while the block lasts.

    On leaving, attempts in progress end and are recorded, within `settings.shutdown_grace`.
    """
    loader = OutgoingLoader(database, keyring_of(settings))
    workflow_starter = workflow_starter_for(settings, client, database)
    policy = settings.circuit_policy
    sender = Sender(
        guard=AddressGuard(
            settings.allowed_private_networks,
            denied_networks=settings.denied_networks,
            ports=settings.port_ranges,
        ),
        excerpt_bytes=settings.response_excerpt_bytes,
    )
    doorbell = doorbell_for(database)

    def on_commit(news: Committed) -> None:
        if news & Committed.CIRCUIT:
            loader.forget_primed()
            workflow_starter.wake()
        if news & Committed.OUTBOX:
            doorbell.ring()

    recorder = Recorder(database, policy=policy, on_commit=on_commit)
    lateness = Lateness()
    first_attempts = FirstAttempts(settings.first_attempts)
    unhealthy = UnhealthyEndpoints()
    requests = AttemptRunner(
        loader=loader,
        sender=sender,
        recorder=recorder,
        public_url=settings.resolved_public_url,
    )
    attempts = DeliveryActivities(
        client=client,
        database=database,
        loader=loader,
        requests=requests,
        recorder=recorder,
        fast_lane=FastLane(settings.max_concurrent_attempts),
        held_backstop=settings.held_backstop,
        on_commit=on_commit,
        lateness=lateness,
    )
    batches = Batches(client, on_room=doorbell.wake)
    batch_attempts = BatchActivities(
        client=client,
        database=database,
        loader=loader,
        requests=requests,
        recorder=recorder,
        unhealthy=unhealthy,
        batches=batches,
        on_commit=on_commit,
    )
    deliveries = Worker(
        client,
        task_queue=DELIVERIES_QUEUE,
        workflows=[DeliveryWorkflow, BatchWorkflow],
        activities=[attempts.step, batch_attempts.attempt_batch],
        # Our workflows import nothing that could break determinism (import-linter checks), and the
        # sandbox costs 0.6-1.2 ms a run where this costs 0.02 ms. Tests run sandboxed.
        workflow_runner=workflow_runner or UnsandboxedWorkflowRunner(),
        # Twice as many as the fast lane has places: when it is full of slow receivers, batches and
        # the tasks of other workflows go on.
        max_concurrent_workflow_tasks=2 * settings.max_concurrent_attempts,
        max_concurrent_local_activities=2 * settings.max_concurrent_attempts,
        max_cached_workflows=2_000,
        graceful_shutdown_timeout=settings.shutdown_grace,
    )
    retries = Worker(
        client,
        task_queue=RETRIES_QUEUE,
        activities=[attempts.step, attempts.record_attempt, batch_attempts.record_batch],
        max_concurrent_activities=settings.max_concurrent_attempts,
        graceful_shutdown_timeout=settings.shutdown_grace,
    )
    control = _control_worker(
        settings,
        client,
        database,
        policy=policy,
        on_commit=on_commit,
        workflow_runner=workflow_runner,
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
        unhealthy=unhealthy,
    )
    worker_id = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
    try:
        async with (
            _together(deliveries, retries, control),
            _background(
                relay.run(),
                workflow_starter.run(),
                send_heartbeats(database, worker_id, first_attempts),
                requeue_lost(database),
                schedules.ensure_daily(client),
                retention_schedule.ensure_schedule(client),
            ),
        ):
            yield
    finally:
        # So that /readyz and other relays know at once. Given up if the database does not answer:
        # leases and heartbeats end by themselves, and workflows repeat their records.
        with contextlib.suppress(SQLAlchemyError, OSError):
            async with asyncio.timeout(_LEAVE_SECONDS):
                await relay.finish()
                async with database.write() as connection:
                    await workers.leave(connection, worker_id)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LEAVE_SECONDS):
                await batch_attempts.close()
                await recorder.close()
        await doorbell.close()
        await sender.aclose()


def _control_worker(
    settings: Settings,
    client: Client,
    database: Database,
    *,
    policy: Policy,
    on_commit: Callable[[Committed], None],
    workflow_runner: WorkflowRunner | None,
) -> Worker:
    """The worker for circuits, jobs, owners' mail, the daily run and retention: few, and long."""
    circuits = CircuitActivities(database=database, policy=policy, on_commit=on_commit)
    jobs = JobActivities(database=database, on_commit=on_commit)
    mail = MailActivities(
        database=database,
        transport=transport_of(settings),
        mail_from=settings.mail_from,
        public_url=settings.resolved_public_url,
        links=OwnerLinks(keyring_of(settings), settings.owner_link_lifetime)
        if settings.owner_link_lifetime
        else None,
    )
    upkeep = DailyActivities(database=database.unhurried)
    retention = RetentionActivities(database=database.unhurried, ages=settings.ages)
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
        activities=[*circuits.all, *jobs.all, *mail.all, *upkeep.all, *retention.all],
        workflow_runner=workflow_runner or UnsandboxedWorkflowRunner(),
        max_concurrent_activities=settings.max_concurrent_control,
        graceful_shutdown_timeout=settings.shutdown_grace,
    )


@asynccontextmanager
async def _together(*workers: Worker) -> AsyncIterator[None]:
    """Run these workers while the block lasts. They are shut down together: one after the other,
    each would accept new work during the grace period of those before it."""
    async with contextlib.AsyncExitStack() as running:
        for one in workers:
            await running.enter_async_context(one)
        try:
            yield
        finally:
            await asyncio.gather(*(one.shutdown() for one in workers))


@asynccontextmanager
async def _background(*work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run endless tasks while the block lasts. If one fails, the block ends with its error."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one) for one in work]
        yield
        for task in tasks:
            task.cancel()


async def run(settings: Settings) -> None:
    """Run until SIGINT or SIGTERM, then drain."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    telemetry = providers.start("worker", by_tenant=settings.metrics_by_tenant)
    of_temporal = TemporalMetrics(
        pushes=telemetry.pushes_metrics and settings.temporal_metrics == "push"
    )
    Runtime.set_default(of_temporal.runtime)
    async with (
        _metrics_server(settings, telemetry, of_temporal),
        Database(settings.resolved_database_url) as database,
    ):
        await migrate(database)
        client = await _connect(stop)
        if client is None:
            return
        async with running_worker(settings, client, database):
            freeze_startup()
            log.info("The worker is ready.", version=VERSION, database=database.kind)
            await stop.wait()
            log.info("The worker is shutting down.", grace=str(settings.shutdown_grace))


@asynccontextmanager
async def _metrics_server(
    settings: Settings, telemetry: Telemetry, of_temporal: TemporalMetrics
) -> AsyncIterator[None]:
    """Serve `/metrics`, ours and those of Temporal's SDK, while the block lasts."""
    token = settings.metrics_token
    server = MetricsServer(
        lambda: exposition.text(telemetry.registry) + of_temporal.text(),
        host=settings.host,
        port=settings.worker_metrics_port,
        token=None if token is None else token.get_secret_value(),
    )
    log.info("The worker's metrics are at /metrics.", host=settings.host, port=server.port)
    try:
        yield
    finally:
        await asyncio.to_thread(server.close)
        await asyncio.to_thread(providers.finish)


async def _connect(stop: asyncio.Event) -> Client | None:
    """Connect to Temporal as soon as it answers. None if `stop` is set first."""
    while not stop.is_set():
        try:
            client = await temporal.connect()
            await temporal.register_search_attributes(client)
        except (RuntimeError, RPCError) as error:
            log.warning("Temporal does not answer yet; trying again.", error=str(error)[:200])
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_RECONNECT_SECONDS):
                    await stop.wait()
        else:
            return client
    return None


def main() -> None:
    """Entry of `hookfast worker` and of `python worker.py`."""
    settings = load_settings()
    configure_logging(settings, process="worker")
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(run(settings))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's event loop where it is installed; asyncio's own works too."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


if __name__ == "__main__":
    main()

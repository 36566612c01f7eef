"""The worker process: two Temporal workers, the outbox relay, and the checks that nothing is lost.

- `deliveries` runs the workflows and, inside their tasks, the fast lane's first attempts.
- `retries` runs every other attempt, so that slow receivers cannot hold up first attempts.

Client and workers share one connection: that is what lets Temporal hand a started workflow straight
back to this process (eager start), where its event is still in memory.
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
from datetime import timedelta
from typing import Any

import structlog
from sqlalchemy.exc import SQLAlchemyError
from temporalio.client import Client
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker, WorkflowRunner

from activities.attempt import AttemptActivities
from hookfast import temporal
from hookfast.clock import utc_now
from hookfast.delivery import DELIVERIES_QUEUE, RETRIES_QUEUE
from hookfast.garbage import freeze_startup
from hookfast.keys import keyring_of
from hookfast.logs import configure_logging
from hookfast.relay import Relay
from hookfast.sender import AddressGuard, Sender
from hookfast.settings import Settings, load_settings
from hookfast.storage import outbox, workers
from hookfast.storage.doorbell import doorbell_for
from hookfast.storage.engine import Database
from hookfast.storage.migrate import migrate
from hookfast.storage.outgoing import OutgoingLoader
from hookfast.storage.recorder import Recorder
from hookfast.version import VERSION
from workflows.delivery import DeliveryWorkflow

_RECONNECT_SECONDS = 1.0
_SWEEP_EVERY = timedelta(seconds=60)
_OVERDUE_AFTER = timedelta(minutes=5)
_SWEEP_BATCH = 500

log = structlog.get_logger()


@asynccontextmanager
async def running_worker(
    settings: Settings,
    client: Client,
    database: Database,
    *,
    workflow_runner: WorkflowRunner | None = None,
) -> AsyncIterator[None]:
    """Everything a worker process runs, for as long as the block lasts.

    On leaving, attempts under way end and are recorded, for at most `settings.shutdown_grace`.
    """
    loader = OutgoingLoader(database, keyring_of(settings))
    recorder = Recorder(database)
    sender = Sender(
        guard=AddressGuard(settings.allowed_private_networks),
        excerpt_bytes=settings.response_excerpt_bytes,
    )
    doorbell = doorbell_for(database)
    attempts = AttemptActivities(
        database=database,
        loader=loader,
        sender=sender,
        recorder=recorder,
        public_url=settings.resolved_public_url,
        fast_lane_per_endpoint=settings.fast_lane_per_endpoint,
    )
    deliveries = Worker(
        client,
        task_queue=DELIVERIES_QUEUE,
        workflows=[DeliveryWorkflow],
        activities=[attempts.attempt, attempts.note_status],
        # Our workflows import nothing that could break determinism (import-linter checks), and the
        # sandbox costs 0.6-1.2 ms a run where this costs 0.02 ms. Tests run sandboxed.
        workflow_runner=workflow_runner or UnsandboxedWorkflowRunner(),
        max_concurrent_workflow_tasks=settings.max_concurrent_attempts,
        max_concurrent_local_activities=settings.max_concurrent_attempts,
        max_cached_workflows=2_000,
        graceful_shutdown_timeout=settings.shutdown_grace,
    )
    retries = Worker(
        client,
        task_queue=RETRIES_QUEUE,
        activities=[attempts.attempt, attempts.record_attempt, attempts.note_status],
        max_concurrent_activities=settings.max_concurrent_attempts,
        graceful_shutdown_timeout=settings.shutdown_grace,
    )
    relay = Relay(
        client=client,
        database=database,
        loader=loader,
        doorbell=doorbell,
        batch=settings.relay_batch,
        lease=settings.relay_lease,
        fast_lane_timeout=settings.fast_lane_timeout,
    )
    worker_id = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
    try:
        async with (
            deliveries,
            retries,
            _background(relay.run(), _keep_beating(database, worker_id), _sweep_lost(database)),
        ):
            yield
    finally:
        with contextlib.suppress(SQLAlchemyError, OSError):
            # A courtesy to /readyz and to the next relay; leases and heartbeats run out anyway.
            await relay.finish()
            async with database.write() as connection:
                await workers.leave(connection, worker_id)
        await recorder.close()
        await doorbell.close()
        await sender.aclose()


@asynccontextmanager
async def _background(*work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run endless tasks while the block lasts; one that fails ends the block with its error."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one) for one in work]
        yield
        for task in tasks:
            task.cancel()


async def _keep_beating(database: Database, worker_id: str) -> None:
    while True:
        try:
            async with database.write() as connection:
                await workers.beat(connection, worker_id, version=VERSION, now=utc_now())
        except (SQLAlchemyError, OSError) as error:
            log.warning("The worker cannot report that it lives.", error=type(error).__name__)
        await asyncio.sleep(workers.BEAT_EVERY.total_seconds())


async def _sweep_lost(database: Database) -> None:
    """Put deliveries that are long overdue back into the outbox: their workflows were lost with
    Temporal's data (a restored backup, say), or are late, which starting them again does not
    change."""
    while True:
        await asyncio.sleep(_SWEEP_EVERY.total_seconds())
        now = utc_now()
        try:
            async with database.write() as connection:
                reopened = await outbox.reopen_lost(
                    connection, overdue_since=now - _OVERDUE_AFTER, now=now, limit=_SWEEP_BATCH
                )
        except (SQLAlchemyError, OSError) as error:
            log.warning("The sweep cannot reach the database.", error=type(error).__name__)
        else:
            if reopened:
                log.warning("Overdue deliveries go through the outbox again.", count=reopened)


async def run(settings: Settings) -> None:
    """Run until SIGINT or SIGTERM, then drain."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with Database(settings.resolved_database_url) as database:
        await migrate(database)
        client = await _connect(stop)
        if client is None:
            return
        async with running_worker(settings, client, database):
            freeze_startup()
            log.info("The worker is ready.", version=VERSION, database=database.kind)
            await stop.wait()
            log.info("The worker drains.", grace=str(settings.shutdown_grace))


async def _connect(stop: asyncio.Event) -> Client | None:
    """Temporal, as soon as it is there; None when told to stop first."""
    while not stop.is_set():
        try:
            client = await temporal.connect()
            await temporal.register_search_attributes(client)
        except (RuntimeError, RPCError) as error:
            log.warning("Temporal is not there yet; trying again.", error=str(error)[:200])
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _RECONNECT_SECONDS)
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
    """uvloop's, where there is one; asyncio's own loop works too."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


if __name__ == "__main__":
    main()

"""Checks that workers poll every task queue of Temporal, and that those with a heartbeat do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from sqlalchemy.exc import SQLAlchemyError
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    DescribeTaskQueueRequest,
    DescribeTaskQueueResponse,
)
from temporalio.client import Client

from hookfast.clock import Clock
from hookfast.deliveries.messages import DELIVERIES_QUEUE, RETRIES_QUEUE
from hookfast.doctor.database import open_existing
from hookfast.doctor.finding import Finding, fail, ok, warn
from hookfast.plural import pluralize
from hookfast.process import name_of
from hookfast.settings.settings import Settings
from hookfast.storage.figures import workers
from hookfast.storage.figures.workers import Heartbeat
from hookfast.workflow_request import CONTROL_QUEUE

POLLED_RECENTLY = timedelta(minutes=2)
"""A worker polls again at least once a minute."""
_RPC = timedelta(seconds=5)
_DATABASE_SECONDS = 3.0
_WORKFLOW = TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW
_ACTIVITY = TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY
_QUEUES = (
    (DELIVERIES_QUEUE, _WORKFLOW),
    (RETRIES_QUEUE, _ACTIVITY),
    (CONTROL_QUEUE, _WORKFLOW),
    (CONTROL_QUEUE, _ACTIVITY),
)
_CHECK = "temporal.workers"

Polls = Mapping[str, Mapping[str, datetime]]
"""When each worker last polled, by the queue and the worker's `pid@host`. Temporal forgets a worker
five minutes after its last poll."""


async def check_pollers(client: Client, settings: Settings, clock: Clock) -> AsyncIterator[Finding]:
    """Check the pollers of every task queue. Raises RPCError."""
    polls = await _read_polls(client)
    now = clock()
    fresh = {
        queue: sum(polled_at > now - POLLED_RECENTLY for polled_at in of_queue.values())
        for queue, of_queue in polls.items()
    }
    silent = sorted({queue.partition(" ")[0] for queue, count in fresh.items() if not count})
    if silent:
        yield fail(
            _CHECK,
            f"No worker polls {', '.join(silent)}.",
            todo="Start one: `hookfast worker`. If one runs, it uses another namespace or "
            "Temporal: compare TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE.",
        )
        return
    most = max(fresh.values())
    saw = f"All task queues are polled, by up to {pluralize(most, 'worker')}."
    stale = find_stale(polls, await _read_heartbeats(settings), now=now)
    if stale:
        yield warn(
            _CHECK,
            f"{saw} {'; '.join(stale)}.",
            todo="It may hang, or all its slots may be taken for minutes: read its log, and "
            "restart it if that says nothing. What it had taken is then repeated by others.",
        )
    else:
        yield ok(_CHECK, saw)


def find_stale(polls: Polls, heartbeats: list[Heartbeat], *, now: datetime) -> list[str]:
    """Return a clause for each worker that is alive by its heartbeat and does not poll a queue that
    others poll. Workers that have left or died have no such heartbeat, although Temporal still
    lists them for minutes."""
    stale = []
    for one in heartbeats:
        name = name_of(one.worker_id)
        if name is None or one.seen_at <= now - workers.ALIVE_FOR:
            continue
        if one.started_at > now - POLLED_RECENTLY:
            continue  # it may not have polled yet
        missed = {
            queue: of_queue.get(name)
            for queue, of_queue in polls.items()
            # compared with the others, whose polls Temporal timed with the same clock
            if of_queue.get(name, datetime.min.replace(tzinfo=UTC))
            < max(of_queue.values()) - POLLED_RECENTLY
        }
        if missed:
            last = max((polled for polled in missed.values() if polled), default=None)
            since = "for five minutes" if last is None else f"since {last:%H:%M:%S} UTC"
            stale.append(f"{name} is alive and has not polled {', '.join(missed)} {since}")
    return stale


async def describe_queue(
    client: Client, name: str, kind: TaskQueueType.ValueType
) -> DescribeTaskQueueResponse:
    """Ask Temporal for a task queue, its pollers and versions. Raises RPCError."""
    request = DescribeTaskQueueRequest(
        namespace=client.namespace, task_queue=TaskQueue(name=name), task_queue_type=kind
    )
    return await client.workflow_service.describe_task_queue(request, timeout=_RPC)


async def _read_polls(client: Client) -> Polls:
    polls = {}
    for queue, kind in _QUEUES:
        found = await describe_queue(client, queue, kind)
        name = f"{queue} ({'workflows' if kind == _WORKFLOW else 'activities'})"
        polls[name] = {
            poller.identity: poller.last_access_time.ToDatetime(UTC) for poller in found.pollers
        }
    return polls


async def _read_heartbeats(settings: Settings) -> list[Heartbeat]:
    """Return the workers' heartbeats; none if the database cannot be read, which its check says."""
    database, _ = open_existing(settings)
    if database is None:
        return []
    async with database:
        with suppress(SQLAlchemyError, TimeoutError):
            async with asyncio.timeout(_DATABASE_SECONDS), database.read() as connection:
                return await workers.latest_heartbeats(connection)
    return []

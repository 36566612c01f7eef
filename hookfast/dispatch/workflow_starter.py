"""Start or wake the workflows that committed rows request.

The order protects every row: find the requests, start or signal their workflows, then mark the rows
as started. A crash after the start repeats it, which costs one signal; after a crash before it, the
row still requests its workflow. A row that changed since it was found is not marked.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection
from temporalio.client import Client
from temporalio.common import WorkflowIDReusePolicy
from temporalio.service import RPCError, RPCStatusCode

from hookfast.clock import Clock, utc_now
from hookfast.dispatch.start import RPC_TIMEOUT
from hookfast.outage_log import DATABASE, TEMPORAL
from hookfast.settings.settings import Settings
from hookfast.storage.circuits.circuits import CircuitWorkflowRequests
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries.jobs import JobWorkflowRequests
from hookfast.storage.owners.notices import MailWorkflowRequests
from hookfast.workflow_request import CONTROL_QUEUE, WAKE, WorkflowRequest

_IDLE_SECONDS = 2.0
_BATCH = 100


log = structlog.get_logger()


class WorkflowRequests(Protocol):
    """A kind of row that requests workflows."""

    async def find(self, connection: AsyncConnection, *, limit: int) -> list[WorkflowRequest]:
        """The requested workflows, at most `limit`."""

    async def mark(
        self, connection: AsyncConnection, started: Sequence[WorkflowRequest], *, now: datetime
    ) -> None:
        """Mark these as started, unless their row has changed since it was found."""


def workflow_starter_for(
    settings: Settings, client: Client, database: Database, *, clock: Clock = utc_now
) -> WorkflowStarter:
    """The starter for every kind of row that requests workflows."""
    kinds = (
        CircuitWorkflowRequests(),
        MailWorkflowRequests(gather=settings.mail_gather, digest_every=settings.mail_digest_every),
        JobWorkflowRequests(),
    )
    return WorkflowStarter(client, database, kinds, clock=clock)


async def stopped(task: asyncio.Task[None]) -> None:
    """Cancel a background task and wait until it has ended."""
    task.cancel()
    await asyncio.wait([task])


class WorkflowStarter:
    """Starts requested workflows. One per process that may do so."""

    def __init__(
        self,
        client: Client,
        database: Database,
        kinds: Sequence[WorkflowRequests],
        *,
        clock: Clock = utc_now,
    ) -> None:
        self._client = client
        self._database = database
        self._kinds = kinds
        self._clock = clock
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Find requests now: a row was committed that requests a workflow."""
        self._woken.set()

    async def run(self) -> None:
        """Start requested workflows until cancelled, even if the database or Temporal is away."""
        while True:
            self._woken.clear()
            await self._try_to_start()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_IDLE_SECONDS):
                    await self._woken.wait()

    async def run_when_woken(self) -> None:
        """Start requested workflows whenever woken. For a process that runs beside a worker."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            await self._try_to_start()

    async def _try_to_start(self) -> None:
        try:
            await self.start_requested()
        except (SQLAlchemyError, RPCError, RuntimeError) as error:
            away = DATABASE if isinstance(error, SQLAlchemyError) else TEMPORAL
            away.failed(
                "The workflow starter waits for the database or Temporal.",
                error=f"{type(error).__name__}: {str(error)[:200]}",
            )
            await asyncio.sleep(_IDLE_SECONDS)

    async def start_requested(self) -> int:
        """Start or wake all requested workflows, and return their number. Raises the database's
        errors, RPCError, and RuntimeError if Temporal cannot be reached."""
        count = 0
        for kind in self._kinds:
            while True:
                async with self._database.read() as connection:
                    requests = await kind.find(connection, limit=_BATCH)
                started = [one for one in requests if await self._start_or_wake(one)]
                if started:
                    async with self._database.write() as connection:
                        await kind.mark(connection, started, now=self._clock())
                count += len(started)
                if len(started) < _BATCH:
                    break
        return count

    async def _start_or_wake(self, request: WorkflowRequest) -> bool:
        """Start or wake a workflow. False if Temporal rejects this one: its row keeps requesting
        it, without delaying others."""
        try:
            await self._client.start_workflow(
                request.workflow,
                request.argument,
                id=request.workflow_id,
                task_queue=CONTROL_QUEUE,
                start_signal=WAKE,
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
                static_summary=request.summary,
                rpc_timeout=RPC_TIMEOUT,
            )
        except RPCError as error:
            if error.status is not RPCStatusCode.INVALID_ARGUMENT:
                raise
            log.error(
                "Temporal rejects the start of a workflow.",
                workflow_id=request.workflow_id,
                error=str(error)[:200],
            )
            return False
        return True

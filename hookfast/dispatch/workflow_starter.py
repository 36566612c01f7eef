"""The conductor: starts or wakes the workflow that a committed row asks for.

The order protects every row: read what asks, start or signal its workflow, then mark it. A crash
after the start repeats it, which costs one signal; a crash before it leaves the row asking.
Marking says "as it was when I looked" (the row's module sees to that), so a row that asked again
in between keeps asking.
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
    """A kind of row that asks for workflows."""

    async def wanted(self, connection: AsyncConnection, *, limit: int) -> list[WorkflowRequest]:
        """The workflows asked for, at most `limit`."""

    async def mark(
        self, connection: AsyncConnection, wanted: Sequence[WorkflowRequest], *, now: datetime
    ) -> None:
        """These were started or woken."""


def workflow_starter_for(
    settings: Settings, client: Client, database: Database, *, clock: Clock = utc_now
) -> WorkflowStarter:
    """A conductor for every kind of row that asks."""
    asking = (
        CircuitWorkflowRequests(),
        MailWorkflowRequests(gather=settings.mail_gather, digest_every=settings.mail_digest_every),
        JobWorkflowRequests(),
    )
    return WorkflowStarter(client, database, asking, clock=clock)


async def stopped(task: asyncio.Task[None]) -> None:
    """Cancel a background task and see it end."""
    task.cancel()
    await asyncio.wait([task])


class WorkflowStarter:
    """One per process that may start workflows. Call `run`, or `start_requested` once."""

    def __init__(
        self,
        client: Client,
        database: Database,
        asking: Sequence[WorkflowRequests],
        *,
        clock: Clock = utc_now,
    ) -> None:
        self._client = client
        self._database = database
        self._asking = asking
        self._clock = clock
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """A row was committed that asks: look now instead of within two seconds."""
        self._rung.set()

    async def run(self) -> None:
        """Conduct until cancelled, whatever is away."""
        while True:
            self._rung.clear()
            await self._try_to_start()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_IDLE_SECONDS):
                    await self._rung.wait()

    async def run_when_rung(self) -> None:
        """Conduct whenever rung, until cancelled: for a process beside which a worker runs."""
        while True:
            await self._rung.wait()
            self._rung.clear()
            await self._try_to_start()

    async def _try_to_start(self) -> None:
        try:
            await self.start_requested()
        except (SQLAlchemyError, OSError, RPCError, RuntimeError) as error:
            log.warning(
                "The conductor waits for the database or Temporal.",
                error=f"{type(error).__name__}: {str(error)[:200]}",
            )
            await asyncio.sleep(_IDLE_SECONDS)

    async def start_requested(self) -> int:
        """Start or wake everything that is asked for; returns how many that were. Raises the
        database's errors, and Temporal's when it is away (RPCError; RuntimeError when it cannot be
        reached)."""
        count = 0
        for kind in self._asking:
            while True:
                async with self._database.read() as connection:
                    wanted = await kind.wanted(connection, limit=_BATCH)
                told = [one for one in wanted if await self._tell(one)]
                if told:
                    async with self._database.write() as connection:
                        await kind.mark(connection, told, now=self._clock())
                count += len(told)
                if len(told) < _BATCH:
                    break
        return count

    async def _tell(self, wanted: WorkflowRequest) -> bool:
        """Start or wake a workflow. False where Temporal refuses just this one: its row goes on
        asking, and holds up nobody."""
        try:
            await self._client.start_workflow(
                wanted.workflow,
                wanted.argument,
                id=wanted.workflow_id,
                task_queue=CONTROL_QUEUE,
                start_signal=WAKE,
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
                static_summary=wanted.summary,
                rpc_timeout=RPC_TIMEOUT,
            )
        except RPCError as error:
            if error.status is not RPCStatusCode.INVALID_ARGUMENT:
                raise
            log.error(
                "A workflow cannot be told.", workflow_id=wanted.workflow_id, error=str(error)[:200]
            )
            return False
        return True

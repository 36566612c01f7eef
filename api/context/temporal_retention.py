"""How long Temporal keeps closed workflows, so that no link leads to a workflow that is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError

_AGAIN_SECONDS = 3600.0
_AGAIN_SECONDS_IF_UNKNOWN = 30.0
_RPC = timedelta(seconds=5)


class TemporalRetention:
    """The namespace's retention, read in the background. One per process."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.known: timedelta | None = None
        """None until Temporal has answered. Kept while Temporal is away."""

    def end_of(self, closed_at: datetime | None) -> datetime | None:
        """Return when the retention of a workflow ends that closed at this time; None while it runs
        or while the retention is unknown."""
        if closed_at is None or self.known is None:
            return None
        return closed_at + self.known

    async def read(self) -> None:
        """Read the retention. While Temporal is away, keep what is known."""
        try:
            found = await self._client.workflow_service.describe_namespace(
                DescribeNamespaceRequest(namespace=self._client.namespace), timeout=_RPC
            )
        except (RPCError, RuntimeError):  # a lazy client's first connect raises RuntimeError
            return
        self.known = found.config.workflow_execution_retention_ttl.ToTimedelta()

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        """Read every hour while the block runs."""
        ended = asyncio.Event()

        async def repeat() -> None:
            while not ended.is_set():
                await self.read()
                pause = _AGAIN_SECONDS_IF_UNKNOWN if self.known is None else _AGAIN_SECONDS
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await ended.wait()

        task = asyncio.create_task(repeat(), name="temporal-retention")
        try:
            yield
        finally:
            ended.set()
            # Python's exit can hang if a request to Temporal is given up shortly before
            await asyncio.wait([task], timeout=_RPC.total_seconds())
            task.cancel()

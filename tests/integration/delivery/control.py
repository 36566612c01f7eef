"""The actions of people on endpoints, carried out as the API does."""

from __future__ import annotations

from typing import Any

from temporalio.client import Client

from hookfast.clock import utc_now
from hookfast.dispatch.workflow_starter import workflow_starter_for
from hookfast.endpoints.circuit import Cause
from hookfast.settings.settings import Settings
from hookfast.storage.database.engine import Database
from hookfast.storage.endpoints import endpoint_state, endpoints, subscriptions


class Control:
    """Stores a change of an endpoint, then starts or wakes its circuit's workflow."""

    def __init__(self, client: Client, database: Database, settings: Settings) -> None:
        self._client = client
        self._database = database
        self._settings = settings

    async def start_requested(self) -> None:
        """Start or wake the workflows that rows request, as the worker does periodically."""
        await workflow_starter_for(self._settings, self._client, self._database).start_requested()

    async def pause(self, endpoint: str) -> None:
        await self._change(endpoint_state.pause, endpoint)

    async def resume(self, endpoint: str) -> None:
        await self._change(endpoint_state.resume, endpoint)

    async def enable(self, endpoint: str) -> None:
        await self._change(endpoint_state.enable, endpoint)

    async def probe(self, endpoint: str) -> None:
        await self._change(endpoint_state.probe_now, endpoint)

    async def disable(self, endpoint: str) -> None:
        await self._change(
            endpoint_state.disable, endpoint, cause=Cause.DISABLED, reason="Disabled by request."
        )

    async def delete(self, endpoint: str) -> None:
        now = utc_now()
        async with self._database.write() as connection:
            await endpoints.mark_deleted(connection, endpoint, at=now)
            await subscriptions.remove_of_endpoint(connection, endpoint)
            await endpoint_state.release_held(connection, endpoint, now=now)
        await self.start_requested()

    async def _change(self, change: Any, endpoint: str, **options: Any) -> None:
        async with self._database.write() as connection:
            assert await change(connection, endpoint, now=utc_now(), **options)
        await self.start_requested()

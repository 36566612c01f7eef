"""The actions of people on endpoints, carried out as the API does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookfast.clock import utc_now
from hookfast.endpoints.circuit import Cause
from hookfast.storage.endpoints import endpoint_state, endpoints, subscriptions

if TYPE_CHECKING:
    from tests.integration.delivery.conftest import Stack


class Control:
    """Stores a change of an endpoint, then starts or wakes its circuit's workflow."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    async def pause(self, endpoint: str) -> None:
        await self._stack.change_endpoint(endpoint_state.pause, endpoint)

    async def resume(self, endpoint: str) -> None:
        await self._stack.change_endpoint(endpoint_state.resume, endpoint)

    async def enable(self, endpoint: str) -> None:
        await self._stack.change_endpoint(endpoint_state.enable, endpoint)

    async def probe(self, endpoint: str) -> None:
        await self._stack.change_endpoint(endpoint_state.probe_now, endpoint)

    async def disable(self, endpoint: str) -> None:
        await self._stack.change_endpoint(
            endpoint_state.disable, endpoint, cause=Cause.DISABLED, reason="Disabled by request."
        )

    async def delete(self, endpoint: str) -> None:
        now = utc_now()
        async with self._stack.database.write() as connection:
            await endpoints.mark_deleted(connection, endpoint, at=now)
            await subscriptions.remove_of_endpoint(connection, endpoint)
            await endpoint_state.release_held(connection, endpoint, now=now)
        await self._stack.workflow_starter.start_requested()

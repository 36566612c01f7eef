"""Registers event types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack, cast

from hookfast_client import call
from hookfast_client.aio.pages import AsyncPages
from hookfast_client.call import path

if TYPE_CHECKING:
    from hookfast_client.aio.client import AsyncHookfast
    from hookfast_client.types import EventType, EventTypeForm, ListEventTypesQuery, Sample


class AsyncEventTypes:
    """The registered event types, each with an optional JSON Schema."""

    def __init__(self, client: AsyncHookfast) -> None:
        self._client = client

    async def put(self, name: str, **form: Unpack[EventTypeForm]) -> EventType:
        """Register an event type, or replace its description and schema."""
        request = call.put(path("event-types", name), form)
        return cast("EventType", await self._client.fetch(request))

    def list(self, **query: Unpack[ListEventTypesQuery]) -> AsyncPages[EventType]:
        """List event types by name."""
        return AsyncPages(self._client, "/event-types", query)

    async def get(self, name: str) -> EventType:
        """Return an event type. Raises NotFound."""
        return cast("EventType", await self._client.fetch(call.get(path("event-types", name))))

    async def sample(self, name: str) -> Sample:
        """Return sample data of an event type, to edit and send as a test."""
        request = call.get(path("event-types", name, "sample"))
        return cast("Sample", await self._client.fetch(request))

    async def delete(self, name: str) -> None:
        """Delete an event type: it cannot be emitted any more."""
        await self._client.send(call.delete(path("event-types", name)))

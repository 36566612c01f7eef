"""Configures sources, which receive webhooks of other services."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack, cast

from hookfast_client import call
from hookfast_client.aio.pages import AsyncPages
from hookfast_client.call import path

if TYPE_CHECKING:
    from hookfast_client.aio.client import AsyncHookfast
    from hookfast_client.types import (
        ChangeSource,
        CreatedSource,
        ListSourcesQuery,
        NewSource,
        Source,
        SourceRotationForm,
        SourceStats,
    )


class AsyncSources:
    """The sources: provider accounts whose webhooks become events."""

    def __init__(self, client: AsyncHookfast) -> None:
        self._client = client

    async def create(self, **form: Unpack[NewSource]) -> CreatedSource:
        """Create a source. The answer has its `url` and its secret, which is not shown again. Not
        repeated when its answer is lost."""
        return cast("CreatedSource", await self._client.fetch(call.post("/sources", form)))

    def list(self, **query: Unpack[ListSourcesQuery]) -> AsyncPages[Source]:
        """List sources, newest first."""
        return AsyncPages(self._client, "/sources", query)

    async def get(self, source_id: str) -> Source:
        """Return a source. Raises NotFound."""
        return cast("Source", await self._client.fetch(call.get(path("sources", source_id))))

    async def update(self, source_id: str, **changes: Unpack[ChangeSource]) -> Source:
        """Change the given settings; None sets one to its default."""
        request = call.patch(path("sources", source_id), changes)
        return cast("Source", await self._client.fetch(request))

    async def delete(self, source_id: str) -> None:
        """Delete a source: its URL answers 404."""
        await self._client.send(call.delete(path("sources", source_id)))

    async def stats(self, source_id: str) -> SourceStats:
        """Count the source's requests by their result."""
        request = call.get(path("sources", source_id, "stats"))
        return cast("SourceStats", await self._client.fetch(request))

    async def rotate_secret(
        self, source_id: str, **form: Unpack[SourceRotationForm]
    ) -> CreatedSource:
        """Set or create a new secret. Both verify for `overlap_seconds`."""
        request = call.post(path("sources", source_id, "rotate-secret"), form)
        return cast("CreatedSource", await self._client.fetch(request))

"""Lists dead letters and sends them again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Unpack, cast, overload

from hookfast_client import call
from hookfast_client.aio.pages import AsyncPages

if TYPE_CHECKING:
    from hookfast_client.aio.client import AsyncHookfast
    from hookfast_client.types import (
        CountDeadLettersQuery,
        DeadLetterStats,
        Delivery,
        DryRun,
        Job,
        ListDeadLettersQuery,
        RedriveForm,
    )


class AsyncDeadLetters:
    """The deliveries that ended without success."""

    def __init__(self, client: AsyncHookfast) -> None:
        self._client = client

    def list(self, **query: Unpack[ListDeadLettersQuery]) -> AsyncPages[Delivery]:
        """List dead letters, newest first."""
        return AsyncPages(self._client, "/dead-letters", query)

    async def stats(self, **query: Unpack[CountDeadLettersQuery]) -> DeadLetterStats:
        """Count the dead letters by endpoint, event type, reason and age."""
        request = call.get("/dead-letters/stats", query)
        return cast("DeadLetterStats", await self._client.fetch(request))

    @overload
    async def redrive(self, *, dry_run: Literal[True], **form: Unpack[RedriveForm]) -> DryRun: ...
    @overload
    async def redrive(
        self, *, dry_run: Literal[False] = False, **form: Unpack[RedriveForm]
    ) -> Job: ...
    async def redrive(self, *, dry_run: bool = False, **form: Unpack[RedriveForm]) -> DryRun | Job:
        """Send again the dead letters that a filter selects, in a job; or only count them."""
        request = call.post_job("/dead-letters/redrive", form, dry_run=dry_run)
        return cast("DryRun | Job", await self._client.fetch(request))

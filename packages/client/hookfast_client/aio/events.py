"""Emits, lists and replays events."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast, overload

from hookfast_client import call
from hookfast_client.aio.pages import AsyncPages
from hookfast_client.batch import Batch, BatchResult, EmittedEvent, NewEvent
from hookfast_client.call import encode_event, path
from hookfast_client.errors import HookfastError, TooLarge

if TYPE_CHECKING:
    from hookfast_client.aio.client import AsyncHookfast
    from hookfast_client.types import (
        Delivery,
        Event,
        EventSummary,
        ListEventDeliveriesQuery,
        ListEventsQuery,
        Replay,
        ReplayDryRun,
        ReplayForm,
    )


class AsyncEvents:
    """Events of the Hookfast that the client is for."""

    def __init__(self, client: AsyncHookfast) -> None:
        self._client = client

    async def emit(
        self,
        type: str,
        data: Any,
        *,
        tenant_id: str | None = None,
        deliver_at: datetime | str | None = None,
        ordering_key: str | None = None,
        idempotency_key: str | None = None,
    ) -> EmittedEvent:
        """Emit an event, and return it once it is committed.

        `data` is any JSON value; bytes are JSON already and are delivered byte for byte. Without
        `tenant_id` the event is for all tenants. The call is repeated safely: it has an idempotency
        key of its own unless you give one, which also makes your own repetitions safe.

        Raises ValueError for what cannot be sent, and HookfastError.
        """
        event = encode_event(
            type, data, tenant_id=tenant_id, deliver_at=deliver_at, ordering_key=ordering_key
        )
        answer = await self._client.send(call.emit(event, idempotency_key=idempotency_key))
        replayed = answer.headers.get("Idempotent-Replayed") == "true"
        return cast("EmittedEvent", {**answer.value, "replayed": replayed})

    async def emit_batch(
        self, events: Iterable[NewEvent], *, idempotency_key: str | None = None
    ) -> BatchResult:
        """Emit events in as few requests as the API's limits allow, and return one result for each,
        in order: an event that is rejected does not stop the others.

        With `idempotency_key`, an event without a key of its own has the key `<key>:<index>`. Give
        one if you repeat a batch that failed: committed events are not emitted again.

        Raises ValueError before anything is sent, and HookfastError if a request failed; its
        `partial_batch` has the results of the events before that request.
        """
        batch = Batch(events, idempotency_key=idempotency_key)
        for request in batch.calls():
            try:
                batch.done(await self._client.send(request))
            except TooLarge as error:
                batch.too_large(error)
            except HookfastError as error:
                error.partial_batch = batch.result
                raise
        return batch.result

    def list(self, **query: Unpack[ListEventsQuery]) -> AsyncPages[EventSummary]:
        """List events, newest first."""
        return AsyncPages(self._client, "/events", query)

    async def get(self, event_id: str) -> Event:
        """Return an event with its data. Raises NotFound."""
        return cast("Event", await self._client.fetch(call.get(path("events", event_id))))

    def list_deliveries(
        self, event_id: str, **query: Unpack[ListEventDeliveriesQuery]
    ) -> AsyncPages[Delivery]:
        """List the deliveries of an event."""
        return AsyncPages(self._client, path("events", event_id, "deliveries"), query)

    @overload
    async def replay(
        self, event_id: str, *, dry_run: Literal[True], **form: Unpack[ReplayForm]
    ) -> ReplayDryRun: ...
    @overload
    async def replay(
        self, event_id: str, *, dry_run: Literal[False] = False, **form: Unpack[ReplayForm]
    ) -> Replay: ...
    async def replay(
        self, event_id: str, *, dry_run: bool = False, **form: Unpack[ReplayForm]
    ) -> ReplayDryRun | Replay:
        """Send an event again, in a job; or only count the deliveries. Not repeated when the answer
        is lost, unless it only counts."""
        request = call.post_job(path("events", event_id, "replay"), form, dry_run=dry_run)
        return cast("ReplayDryRun | Replay", await self._client.fetch(request))

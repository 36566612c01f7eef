"""Lookups of events and their deliveries. `api.routes.emit` emits events."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any, Self, TypeVar

from fastapi import Query, Response
from pydantic import BaseModel, Field
from sqlalchemy.ext.asyncio import AsyncConnection

from api.access.authentication import Principal, Reader
from api.access.ownership import found
from api.context.context import AppContext, Context
from api.forms.event import MAX_KEY
from api.http.fields import EventPath, EventTypeFilter, Since, TenantFilter, Time, Until
from api.http.pagination import Listing, PageQuery
from api.http.routing import router
from api.routes.deliveries import DeliveryView, delivery_listing
from hookfast.events.event_type import parse_event_type
from hookfast.storage.deliveries import deliveries
from hookfast.storage.deliveries.deliveries import DeliveryFilter
from hookfast.storage.events import events, idempotency_keys
from hookfast.storage.events.events import EventFilter, EventSummary
from hookfast.storage.tables import Event

routes = router("Events")


class EventSummaryView(BaseModel):
    """An event without its data."""

    id: str = Field(description="Id of the event, `evt_…`.")
    type: str = Field(description="The event's type, e.g. `order.invoice.paid`.")
    created_at: Time = Field(description="When the event was emitted.")
    tenant_id: str | None = Field(description="Null for a broadcast.")
    deliver_at: Time | None
    deliveries: int | None = Field(
        description="The number of deliveries; null for a tenant's key and a broadcast."
    )
    inbox_id: str | None = Field(description="The inbox entry, if it was received as a webhook.")
    ordering_key: str | None

    @classmethod
    def of(cls, event: EventSummary | Event, *, principal: Principal) -> Self:
        view = cls.model_validate(event, from_attributes=True)
        if principal.tenant_id is not None and event.tenant_id is None:
            view.deliveries = None
        return view


_NOT_IN_BODY = {"deliver_at", "deliveries", "inbox_id", "ordering_key"}


class EventView(EventSummaryView):
    """An event."""

    data: Any = Field(description="Exactly as it was emitted, byte for byte.")


@routes.get("/events", summary="List events")
async def list_events(
    page: PageQuery,
    context: AppContext,
    principal: Reader,
    type: EventTypeFilter = None,
    tenant_id: TenantFilter = None,
    since: Since = None,
    until: Until = None,
    idempotency_key: Annotated[
        str | None,
        Query(
            max_length=MAX_KEY,
            description="The event emitted with this key. Each tenant has its own keys: to find an "
            "event by a tenant's key, the operator also passes `tenant_id`.",
        ),
    ] = None,
) -> Listing[EventSummaryView]:
    """A tenant's key sees its tenant's events and broadcasts. All given filters must match."""
    chosen = EventFilter(
        type=None if type is None else parse_event_type(type, pointer="type"),
        tenant_id=principal.tenant_for(tenant_id),
        broadcasts=principal.tenant_id is not None and tenant_id is None,
        since=since,
        until=until,
    )
    async with context.database.read() as connection:
        if idempotency_key is None:
            rows = await events.list_page(connection, chosen, after=page.after, limit=page.rows)
        else:
            scopes = {principal.idempotency_scope, tenant_id or principal.idempotency_scope}
            rows = [
                event
                for event in await _with_key(connection, idempotency_key, scopes)
                if chosen.fits(event) and (page.after is None or event.id < page.after)
            ]
    return page.listing(rows, lambda event: EventSummaryView.of(event, principal=principal))


@routes.get(
    "/events/{event_id}",
    summary="Get an event with its data",
    response_model=EventView,
)
async def get_event(event_id: EventPath, context: AppContext, principal: Reader) -> Response:
    """The URL in a `thin` payload points here."""
    event = await read_event(event_id, context, principal)
    # The stored body, which has the data exactly as sent, and the other members of the list's view.
    view = EventSummaryView.of(event, principal=principal)
    more = view.model_dump_json(include=_NOT_IN_BODY).encode()
    return Response(event.body[:-1] + b"," + more[1:], media_type="application/json")


async def read_event(event_id: str, context: Context, principal: Principal) -> Event:
    """Return the stored event, with its exact body. Raises NotFound if the caller may not see
    it."""
    async with context.database.read() as connection:
        return visible_event(await events.get(connection, event_id), principal)


@routes.get("/events/{event_id}/deliveries", summary="List an event's deliveries")
async def list_event_deliveries(
    event_id: EventPath, page: PageQuery, context: AppContext, principal: Reader
) -> Listing[DeliveryView]:
    chosen = DeliveryFilter(event_id=event_id, tenant_id=principal.tenant_id)
    async with context.database.read() as connection:
        visible_event(await events.get_summary(connection, event_id), principal)
        rows = await deliveries.list_page(connection, chosen, after=page.after, limit=page.rows)
        return await delivery_listing(connection, page, rows)


async def _with_key(
    connection: AsyncConnection, key: str, scopes: Collection[str]
) -> list[EventSummary]:
    """Return the events that were emitted with this idempotency key in these scopes."""
    emitted: list[EventSummary] = []
    for used in await idempotency_keys.find(connection, [(scope, key) for scope in scopes]):
        event = await events.get_summary(connection, used.event_id)
        emitted += [] if event is None else [event]
    return sorted(emitted, key=lambda event: event.id, reverse=True)


_Row = TypeVar("_Row", Event, EventSummary)


def visible_event(event: _Row | None, principal: Principal) -> _Row:
    """Return the event if the caller may see it; everyone may see broadcasts. Raises NotFound."""
    event = found(event)
    if event.tenant_id is not None:
        principal.check_tenant(event.tenant_id)
    return event

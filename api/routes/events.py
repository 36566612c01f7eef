"""Events: emitted once, alone or in batches; looked up with what became of them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Annotated, Any, Literal, Self, TypeVar

from fastapi import Depends, Header, Query, Response
from pydantic import BaseModel, Field
from sqlalchemy.ext.asyncio import AsyncConnection

from api.authentication import Emitter, Principal, Reader
from api.backlog import admitted
from api.context import AppContext, Context
from api.event_input import (
    EXAMPLES,
    KEY_PATTERN,
    MAX_BATCH,
    MAX_KEY,
    BatchEventForm,
    EventForm,
    parse_batch,
    parse_event,
)
from api.fields import EventPath, TenantId, Time, TimeInput
from api.ownership import found
from api.pagination import Listing, PageQuery
from api.problems import ProblemModel, problem_of
from api.routes.deliveries import DeliveryView
from api.routing import RawJson, router
from hookfast import traceparent
from hookfast.errors import HookfastError
from hookfast.event_type import parse_event_type
from hookfast.storage import deliveries, events, idempotency_keys
from hookfast.storage.deliveries import DeliveryFilter
from hookfast.storage.emit import Accepted, EmitResult
from hookfast.storage.events import EventFilter, EventSummary
from hookfast.storage.new_events import Committed, NewEvent
from hookfast.storage.tables import Event
from hookfast.telemetry import spans

routes = router("Events")

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=MAX_KEY,
        pattern=KEY_PATTERN,
        description="Makes it safe to send again: the same key with the same event gives the same "
        "answer and no second event. Keys of a tenant's API keys are its own.",
    ),
]
TraceparentHeader = Annotated[
    str | None,
    Header(
        alias="traceparent",
        description="W3C Trace Context: the event's deliveries join the caller's trace.",
    ),
]


class EmittedEvent(BaseModel):
    """An event that is committed."""

    id: str
    type: str
    created_at: Time
    deliveries: int = Field(description="How many deliveries it has: one per subscription.")

    @classmethod
    def of(cls, event: Committed, **more: Any) -> Self:
        return cls(
            id=event.id,
            type=event.type,
            created_at=event.created_at,
            deliveries=event.deliveries,
            **more,
        )


class AcceptedItem(EmittedEvent):
    """An event of a batch that is committed."""

    status: Literal[202] = 202
    replayed: bool = Field(description="It was committed before, with its idempotency key.")


class RefusedItem(BaseModel):
    """An event of a batch that was refused; the others are not affected."""

    status: int
    problem: ProblemModel


class EmittedBatch(BaseModel):
    """One result per event, in order."""

    data: list[AcceptedItem | RefusedItem]
    accepted: int
    rejected: int


class EventSummaryView(BaseModel):
    """An event without its data."""

    id: str
    type: str
    created_at: Time
    tenant_id: str | None = Field(description="Null for a broadcast.")
    deliver_at: Time | None
    deliveries: int | None = Field(
        description="How many deliveries it has; null where a tenant's key looks at a broadcast."
    )
    inbox_id: str | None = Field(description="What came in, where it was made of a webhook.")

    @classmethod
    def of(cls, event: EventSummary | Event, *, principal: Principal) -> Self:
        hidden = principal.tenant_id is not None and event.tenant_id is None
        return cls(
            id=event.id,
            type=event.type,
            created_at=event.created_at,
            tenant_id=event.tenant_id,
            deliver_at=event.deliver_at,
            deliveries=None if hidden else event.deliveries,
            inbox_id=event.inbox_id,
        )


class EventView(EventSummaryView):
    """An event."""

    data: Any = Field(description="Byte for byte as it was emitted.")


def _body(schema: dict[str, Any], examples: dict[str, Any]) -> dict[str, Any]:
    content = {"schema": schema, "examples": examples}
    return {"requestBody": {"required": True, "content": {"application/json": content}}}


_BATCH_SCHEMA = {
    "type": "object",
    "properties": {
        "events": {
            "type": "array",
            "minItems": 1,
            "maxItems": MAX_BATCH,
            "items": BatchEventForm.model_json_schema(),
        }
    },
    "required": ["events"],
    "additionalProperties": False,
}
_BATCH_EXAMPLE = {
    "summary": "Two events",
    "value": {
        "events": [
            EXAMPLES["tenant"]["value"] | {"idempotency_key": "invoice-in_8Tx2-paid"},
            EXAMPLES["broadcast"]["value"],
        ]
    },
}


@routes.post(
    "/events",
    status_code=202,
    summary="Emit an event",
    dependencies=[Depends(admitted)],
    openapi_extra=_body(EventForm.model_json_schema(), dict(EXAMPLES)),
    responses={
        202: {
            "headers": {
                "Idempotent-Replayed": {
                    "description": "`true` when an earlier request with this key emitted it.",
                    "schema": {"type": "string", "enum": ["true"]},
                }
            }
        }
    },
)
async def emit_event(
    raw: RawJson,
    response: Response,
    context: AppContext,
    principal: Emitter,
    idempotency_key: IdempotencyKey = None,
    trace: TraceparentHeader = None,
) -> EmittedEvent:
    """Answers once the event and its deliveries are committed. They are made from then on,
    whatever happens to this process, to Temporal or to the receivers. While more deliveries wait
    than `HOOKFAST_MAX_BACKLOG` allows it answers 503 (`overloaded`) and stores nothing."""
    event = parse_event(raw, caller=principal, key=idempotency_key, now=context.clock())
    [result] = await context.emitter.emit(
        [event], scope=_scope(principal), traceparent=_trace(trace)
    )
    if isinstance(result, HookfastError):
        raise result
    if result.replayed:
        response.headers["Idempotent-Replayed"] = "true"
    return EmittedEvent.of(result.event)


@routes.post(
    "/events/batch",
    status_code=202,
    summary="Emit up to 1000 events",
    dependencies=[Depends(admitted)],
    openapi_extra=_body(_BATCH_SCHEMA, {"batch": _BATCH_EXAMPLE}),
)
async def emit_batch(
    raw: RawJson,
    context: AppContext,
    principal: Emitter,
    idempotency_key: IdempotencyKey = None,
    trace: TraceparentHeader = None,
) -> EmittedBatch:
    """Every event gets its own result. Those that are accepted are committed together; those that
    are refused say why and change nothing for the others. While more deliveries wait than
    `HOOKFAST_MAX_BACKLOG` allows the whole request gets 503 (`overloaded`)."""
    parsed = await asyncio.to_thread(  # a large batch takes longer than others should wait
        parse_batch,
        raw,
        caller=principal,
        key=idempotency_key,
        max_event_bytes=context.settings.max_event_bytes,
        now=context.clock(),
    )
    good = [event for event in parsed if isinstance(event, NewEvent)]
    emitted = iter(
        await context.emitter.emit(good, scope=_scope(principal), traceparent=_trace(trace))
    )
    results = [next(emitted) if isinstance(event, NewEvent) else event for event in parsed]
    accepted = sum(isinstance(result, Accepted) for result in results)
    return EmittedBatch(
        data=[_item(result) for result in results],
        accepted=accepted,
        rejected=len(results) - accepted,
    )


@routes.get("/events", summary="List events")
async def list_events(
    page: PageQuery,
    context: AppContext,
    principal: Reader,
    type: Annotated[str | None, Query(max_length=200, examples=["order.invoice.paid"])] = None,
    tenant_id: TenantId | None = None,
    since: Annotated[TimeInput | None, Query(description="Created then or later.")] = None,
    until: Annotated[TimeInput | None, Query(description="Created before then.")] = None,
    idempotency_key: Annotated[
        str | None,
        Query(
            max_length=MAX_KEY,
            description="The one that was emitted with this key. Keys of a tenant's API keys are "
            "its own: to look for one of those, the operator names the tenant.",
        ),
    ] = None,
) -> Listing[EventSummaryView]:
    """A tenant's key sees its tenant's events and the broadcasts. Filters add up."""
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
            scopes = {_scope(principal), tenant_id or _scope(principal)}
            rows = [
                event
                for event in await _with_key(connection, idempotency_key, scopes)
                if chosen.fits(event) and (page.after is None or event.id < page.after)
            ]
    return page.answer(
        rows,
        key=lambda event: event.id,
        view=lambda event: EventSummaryView.of(event, principal=principal),
    )


@routes.get(
    "/events/{event_id}",
    summary="Get an event with its data",
    response_model=EventView,
)
async def get_event(event_id: EventPath, context: AppContext, principal: Reader) -> Response:
    """This is also where the URL in a `thin` payload points."""
    event = await read_event(event_id, context, principal)
    # The stored body, which holds the data as it was sent, and what the list shows besides.
    view = EventSummaryView.of(event, principal=principal)
    more = view.model_dump_json(include={"deliver_at", "deliveries", "inbox_id"}).encode()
    return Response(event.body[:-1] + b"," + more[1:], media_type="application/json")


async def read_event(event_id: str, context: Context, principal: Principal) -> Event:
    """The stored event, with its exact body. Raises NotFound where the caller may not see it."""
    async with context.database.read() as connection:
        return _visible(await events.get(connection, event_id), principal)


@routes.get("/events/{event_id}/deliveries", summary="List an event's deliveries")
async def list_event_deliveries(
    event_id: EventPath, page: PageQuery, context: AppContext, principal: Reader
) -> Listing[DeliveryView]:
    chosen = DeliveryFilter(event_id=event_id, tenant_id=principal.tenant_id)
    async with context.database.read() as connection:
        _visible(await events.get_summary(connection, event_id), principal)
        rows = await deliveries.list_page(connection, chosen, after=page.after, limit=page.rows)
    return page.answer(rows, key=lambda delivery: delivery.id, view=DeliveryView.of)


async def _with_key(
    connection: AsyncConnection, key: str, scopes: Collection[str]
) -> list[EventSummary]:
    made: list[EventSummary] = []
    for used in await idempotency_keys.find(connection, [(scope, key) for scope in scopes]):
        event = await events.get_summary(connection, used.event_id)
        made += [] if event is None else [event]
    return sorted(made, key=lambda event: event.id, reverse=True)


_Row = TypeVar("_Row", Event, EventSummary)


def _visible(event: _Row | None, principal: Principal) -> _Row:
    """The event, when the caller may know of it: broadcasts are everyone's. Raises NotFound."""
    event = found(event)
    if event.tenant_id is not None:
        principal.check_tenant(event.tenant_id)
    return event


def _scope(principal: Principal) -> str:
    """Where the caller's idempotency keys are unique."""
    return principal.tenant_id or "operator"


def _trace(header: str | None) -> str:
    """Where the request is traced, its span; else the caller's trace, or a new one where the header
    is missing or not valid."""
    return spans.current() or traceparent.parse(header or "") or traceparent.new()


def _item(result: EmitResult) -> AcceptedItem | RefusedItem:
    if isinstance(result, Accepted):
        return AcceptedItem.of(result.event, replayed=result.replayed)
    problem = problem_of(result)
    return RefusedItem(status=problem.status, problem=ProblemModel(**problem.document()))

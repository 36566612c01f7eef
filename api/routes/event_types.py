"""Event types: the catalogue of events that can be emitted."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Self

from fastapi import Path, Response
from pydantic import BaseModel, ConfigDict, Field

from api.access.audit import Audit
from api.access.authentication import OperatorOnly, Reader
from api.access.ownership import found
from api.context.context import AppContext, Context
from api.forms.json_schema import check_schema
from api.forms.sample import Origin, sample_of
from api.http.fields import Description, Input, Time, example
from api.http.pagination import Listing, PageQuery
from api.http.routing import router
from api.openapi.glossary import described_as_in
from hookfast.errors import NotFound
from hookfast.events.event_type import MAX_LENGTH, MAX_PARTS, is_event_type, parse_event_type
from hookfast.events.operational import reject_reserved
from hookfast.storage.audit.audited import created, deleted, facts, updated
from hookfast.storage.events import event_types
from hookfast.storage.tables import EventType
from hookfast.strict_json.text import from_text

routes = router("Event types")

NamePath = Annotated[
    str,
    Path(
        description=f"1 to {MAX_PARTS} lower-case parts; three, `namespace.noun.verb`, are "
        "recommended. `HOOKFAST_EVENT_TYPE_PARTS` may demand a number for new ones.",
        examples=["order.invoice.paid"],
        json_schema_extra={"maxLength": MAX_LENGTH},
    ),
]


class EventTypeForm(Input):
    """The settings of an event type."""

    model_config = example(
        description="An invoice was paid in full.",
        schema={
            "type": "object",
            "required": ["invoice_id", "amount"],
            "properties": {
                "invoice_id": {"type": "string"},
                "amount": {"type": "integer", "minimum": 0},
            },
        },
    )

    description: Description = ""
    json_schema: dict[str, Any] | bool | None = Field(
        None,
        alias="schema",
        description="JSON Schema 2020-12 that the `data` of every event of this type must match. "
        "Patterns are regular expressions of ECMA-262. References must stay inside the schema; "
        "nothing is fetched.",
    )


class EventTypeView(BaseModel):
    """An event type that can be emitted."""

    model_config = ConfigDict(
        populate_by_name=True, json_schema_extra=described_as_in(EventTypeForm)
    )

    name: str = Field(description="The event type, e.g. `order.invoice.paid`.")
    description: str
    json_schema: dict[str, Any] | bool | None = Field(alias="schema")
    created_at: Time
    updated_at: Time

    @classmethod
    def of(cls, event_type: EventType) -> Self:
        return cls(**event_type.model_dump())


class SampleView(BaseModel):
    """Sample data of an event type, for a test to start from."""

    type: str = Field(description="The event type, e.g. `order.invoice.paid`.")
    data: Any = Field(description="What a test sends if it gives no `data`.")
    origin: Origin = Field(
        description="`example`: the first of the schema's `examples`. `provider`: a sample request "
        "of the provider, such as GitHub's. `schema`: generated from the schema; it may have to be "
        "edited to match it. `default`: the event type has no schema that says more."
    )


@routes.put(
    "/event-types/{name}",
    summary="Register or replace an event type",
    responses={201: {"model": EventTypeView, "description": "The event type is new."}},
)
async def put_event_type(
    name: NamePath,
    form: EventTypeForm,
    context: AppContext,
    response: Response,
    audit: Audit,
    _: OperatorOnly,
) -> EventTypeView:
    if not await _is_registered(context, name):  # else it keeps its name if the setting changes
        parse_event_type(name, pointer="name", parts=context.settings.event_type_parts)
    reject_reserved(name, pointer="name")
    if form.json_schema is not None:
        await asyncio.to_thread(check_schema, form.json_schema)
    now = context.clock()
    event_type = EventType(
        name=name,
        description=form.description,
        json_schema=form.json_schema,
        created_at=now,
        updated_at=now,
    )
    async with context.database.write() as connection:
        replaced = await event_types.put(connection, event_type)
        if replaced is None:
            response.status_code = 201
            await audit.record(connection, created(event_type))
        else:
            await audit.record(connection, updated(event_type, before=facts(replaced)))
        stored = EventTypeView.of(found(await event_types.get(connection, name)))
    context.catalogue.expire()
    return stored


@routes.get("/event-types", summary="List event types by name")
async def list_event_types(
    page: PageQuery, context: AppContext, _: Reader
) -> Listing[EventTypeView]:
    async with context.database.read() as connection:
        rows = await event_types.list_page(connection, after=page.after, limit=page.rows)
    return page.listing(rows, EventTypeView.of, key="name")


@routes.get("/event-types/{name}", summary="Get an event type")
async def get_event_type(name: NamePath, context: AppContext, _: Reader) -> EventTypeView:
    _check_name(name)
    async with context.database.read() as connection:
        return EventTypeView.of(found(await event_types.get(connection, name)))


@routes.get("/event-types/{name}/sample", summary="Get sample data of an event type")
async def get_sample(name: NamePath, context: AppContext, _: Reader) -> SampleView:
    """Returns the data that a test of an endpoint sends, to edit and send with `data`."""
    _check_name(name)
    async with context.database.read() as connection:
        event_type = found(await event_types.get(connection, name))
    sample = sample_of(name, event_type.json_schema, now=context.clock())
    return SampleView(type=name, data=from_text(sample.data), origin=sample.origin)


@routes.delete("/event-types/{name}", status_code=204, summary="Delete an event type")
async def delete_event_type(
    name: NamePath, context: AppContext, audit: Audit, _: OperatorOnly
) -> None:
    """New events of this type are rejected. Past events and their deliveries stay."""
    _check_name(name)
    reject_reserved(name, pointer="name")
    async with context.database.write() as connection:
        event_type = await event_types.get(connection, name, lock=True)
        if event_type is None:
            raise NotFound("There is no such event type.")
        await event_types.remove(connection, name)
        await audit.record(connection, deleted(event_type))
    context.catalogue.expire()


def _check_name(name: str) -> None:
    if not is_event_type(name):
        raise NotFound("There is no such event type.")


async def _is_registered(context: Context, name: str) -> bool:
    if not is_event_type(name):
        return False
    async with context.database.read() as connection:
        return await event_types.get(connection, name) is not None

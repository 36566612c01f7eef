"""The event catalogue: the event types with schemas and examples, which operators edit here."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Response

from api.access.audit import Audit
from api.access.authentication import OperatorOnly, Reader
from api.context.context import Context
from api.dashboard.site import DASHBOARD
from api.forms.sample import sample_of
from api.http.pagination import PageQuery
from api.routes.event_types import (
    EventTypeForm,
    EventTypeView,
    NamePath,
    delete_event_type,
    get_event_type,
    list_event_types,
    put_event_type,
)
from api.site.form import check_unchanged, seen_version, validated
from api.site.json_view import pretty
from api.site.page import PageView, View
from api.site.page_route import PageRouter
from hookfast.errors import Conflict, HookfastError, InvalidInput
from hookfast.events.event_type import describe_parts
from hookfast.events.operational import is_reserved
from hookfast.storage.events import event_types
from hookfast.strict_json.text import to_text

routes = PageRouter(DASHBOARD)

StoredEventType = Annotated[EventTypeView, Depends(get_event_type)]


@routes.get("/event-types")
async def event_types_page(view: PageView, page: PageQuery, principal: Reader) -> Response:
    """List the event types by name."""
    listing = await list_event_types(page, view.context, principal)
    return view.render("event_types.html", listing=listing)


# with a hyphen, which no event type has: one may be called `new`
@routes.get("/event-types/new-type")
async def new_event_type_page(view: PageView, _: OperatorOnly) -> Response:
    """Show the form for a new event type."""
    return _form(view, {"name": "", "description": "", "schema": ""}, None)


@routes.post("/event-types/new-type")
async def add_event_type(view: PageView, audit: Audit, principal: OperatorOnly) -> Response:
    """Register an event type."""
    name = view.form.get("name", "")
    return await _put(name, view, audit, principal, None)


@routes.get("/event-types/{name}")
async def event_type_page(view: PageView, event_type: StoredEventType) -> Response:
    """Show an event type: its schema and an example."""
    example, is_generated = _example(event_type, view)
    return view.render(
        "event_type.html",
        event_type=event_type,
        schema=_text(event_type.json_schema),
        example=example,
        is_generated=is_generated,
        reserved=is_reserved(event_type.name),
    )


@routes.get("/event-types/{name}/edit")
async def edit_page(view: PageView, _: OperatorOnly, event_type: StoredEventType) -> Response:
    """Show the form with an event type's description and schema."""
    fields = {
        "name": event_type.name,
        "description": event_type.description,
        "schema": _text(event_type.json_schema),
    }
    return _form(view, fields, event_type)


@routes.post("/event-types/{name}/edit")
async def edit(name: NamePath, view: PageView, audit: Audit, principal: OperatorOnly) -> Response:
    """Replace an event type's description and schema."""
    event_type = await get_event_type(name, view.context, principal)
    return await _put(name, view, audit, principal, event_type)


routes.confirmed_action(
    "/event-types/{name}/delete",
    delete_event_type,
    "The event type is deleted.",
    of=StoredEventType,
    title="Delete this event type?",
    about=lambda event_type: event_type.name,
    text="New events of this type are rejected. Its past events and their deliveries stay.",
    button="Delete",
    leads_to="/dashboard/event-types",
    allowed=OperatorOnly,
)


async def _put(
    name: str,
    view: View,
    audit: Audit,
    principal: OperatorOnly,
    replaced: EventTypeView | None,
) -> Response:
    try:
        if replaced is None:
            await _check_free(name, view.context)
        else:
            check_unchanged(view.form, replaced.updated_at)
        schema = view.form.json("schema", pointer="/schema")
        if not isinstance(schema, dict | bool | None):
            raise InvalidInput.at(
                "/schema", 'a JSON Schema is an object such as {"type": "object"}, or true or false'
            )
        members = {"description": view.form.get("description", ""), "schema": schema}
        form = validated(EventTypeForm, members)
        await put_event_type(name, form, view.context, Response(), audit, principal)
    except (InvalidInput, Conflict) as error:
        sent = {each: view.form.get(each, "") for each in ("description", "schema")}
        return _form(view, {"name": name} | sent, replaced, error)
    return view.redirect(f"/dashboard/event-types/{name}", f"{name} is registered.")


async def _check_free(name: str, context: Context) -> None:
    """Raise InvalidInput if the name is taken: the event type and its schema would be replaced."""
    async with context.database.read() as connection:
        if await event_types.get(connection, name) is not None:
            raise InvalidInput.at("/name", "an event type has this name already; edit that one")


def _form(
    view: View,
    fields: dict[str, str],
    replaced: EventTypeView | None,
    error: HookfastError | None = None,
) -> Response:
    return view.render_form(
        "event_type_form.html",
        error=error,
        fields=fields,
        is_new=replaced is None,
        name_hint=_name_hint(view),
        seen=None if replaced is None else seen_version(replaced.updated_at),
    )


def _name_hint(view: View) -> str:
    parts = view.context.settings.event_type_parts
    allowed = describe_parts(parts)
    recommended = "." if parts is not None else "; three are best: namespace, noun, verb."
    return f"{allowed[:1].upper()}{allowed[1:]} in lower case, joined by dots{recommended}"


def _text(schema: Any) -> str:
    return "" if schema is None else to_text(schema, layout="indented")


def _example(event_type: EventTypeView, view: View) -> tuple[str | None, bool]:
    """Return example data of this type, and whether it was generated from the schema."""
    sample = sample_of(event_type.name, event_type.json_schema, now=view.now)
    return (
        None if sample.origin == "default" else pretty(sample.data)[0]
    ), sample.origin == "schema"

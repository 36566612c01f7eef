"""The event catalogue: what can be emitted, with schemas and examples; operators mend it here."""

from __future__ import annotations

import json
from typing import Any

from fastapi import Response

from api.access.audit import Audit
from api.access.authentication import OperatorOnly, Reader
from api.answers.problems import problem_of
from api.dashboard.site.form import check_unchanged, faults, filled, seen
from api.dashboard.site.json_view import shown
from api.dashboard.site.page import PageView, View
from api.dashboard.site.page_route import page_router
from api.dashboard.site.schema_example import example_of
from api.http.pagination import PageQuery
from api.process.context import AppContext, Context
from api.routes.endpoint_checks import sample_of
from api.routes.event_types import (
    EventTypeForm,
    EventTypeView,
    NamePath,
    delete_event_type,
    get_event_type,
    list_event_types,
    put_event_type,
)
from hookfast.errors import Conflict, HookfastError, InvalidInput
from hookfast.events.operational import is_reserved
from hookfast.storage.events import event_types

routes = page_router()


@routes.get("/event-types")
async def event_types_page(
    view: PageView, page: PageQuery, context: AppContext, principal: Reader
) -> Response:
    """Every event type, by name."""
    listing = await list_event_types(page, context, principal)
    return view.render("event_types.html", listing=listing)


@routes.get("/event-types/new")
async def new_event_type_page(view: PageView, _: OperatorOnly) -> Response:
    """The form for a new one."""
    return _form(view, {"name": "", "description": "", "schema": ""}, None)


@routes.post("/event-types/new")
async def add_event_type(
    view: PageView, context: AppContext, audit: Audit, principal: OperatorOnly
) -> Response:
    """A new one."""
    name = view.form.get("name", "")
    return await _put(name, view, context, audit, principal, None)


@routes.get("/event-types/{name}")
async def event_type_page(
    name: NamePath, view: PageView, context: AppContext, principal: Reader
) -> Response:
    """One event type: its schema, and an example."""
    event_type = await get_event_type(name, context, principal)
    example, made_up = _example(event_type, view)
    return view.render(
        "event_type.html",
        event_type=event_type,
        schema=_text(event_type.json_schema),
        example=example,
        made_up=made_up,
        reserved=is_reserved(name),
    )


@routes.get("/event-types/{name}/edit")
async def edit_page(
    name: NamePath, view: PageView, context: AppContext, principal: OperatorOnly
) -> Response:
    """The form for one that there is."""
    event_type = await get_event_type(name, context, principal)
    schema = _text(event_type.json_schema)
    fields = {"name": name, "description": event_type.description, "schema": schema}
    return _form(view, fields, event_type)


@routes.post("/event-types/{name}/edit")
async def edit(
    name: NamePath, view: PageView, context: AppContext, audit: Audit, principal: OperatorOnly
) -> Response:
    """Replace it."""
    event_type = await get_event_type(name, context, principal)
    return await _put(name, view, context, audit, principal, event_type)


@routes.get("/event-types/{name}/delete")
async def delete_page(
    name: NamePath, view: PageView, context: AppContext, principal: OperatorOnly
) -> Response:
    """Ask first."""
    await get_event_type(name, context, principal)
    return view.render(
        "confirm.html",
        section="event-types",
        title="Delete this event type?",
        about=name,
        text="New events of this type are rejected. Its past events and their deliveries stay.",
        action=f"/dashboard/event-types/{name}/delete",
        button="Delete",
        back=f"/dashboard/event-types/{name}",
    )


@routes.post("/event-types/{name}/delete")
async def delete(
    name: NamePath, view: PageView, context: AppContext, audit: Audit, principal: OperatorOnly
) -> Response:
    """It is gone."""
    await delete_event_type(name, context, audit, principal)
    return view.go("/dashboard/event-types", f"{name} is deleted.")


async def _put(
    name: str,
    view: View,
    context: AppContext,
    audit: Audit,
    principal: OperatorOnly,
    replaced: EventTypeView | None,
) -> Response:
    try:
        if replaced is None:
            await _check_free(name, context)
        else:
            check_unchanged(view.form, replaced.updated_at)
        schema = view.form.json("schema", pointer="/schema")
        if not isinstance(schema, dict | bool | None):
            raise InvalidInput.at(
                "/schema", 'a JSON Schema is an object such as {"type": "object"}, or true or false'
            )
        members = {"description": view.form.get("description", ""), "schema": schema}
        form = filled(EventTypeForm, members)
        await put_event_type(name, form, context, Response(), audit, principal)
    except (InvalidInput, Conflict) as error:
        sent = {each: view.form.get(each, "") for each in ("description", "schema")}
        return _form(view, {"name": name} | sent, replaced, refused=error)
    return view.go(f"/dashboard/event-types/{name}", f"{name} is registered.")


async def _check_free(name: str, context: Context) -> None:
    """Raises InvalidInput where there is one of this name: it would be replaced, schema and all."""
    async with context.database.read() as connection:
        if await event_types.get(connection, name) is not None:
            raise InvalidInput.at("/name", "there is an event type of this name; edit that one")


def _form(
    view: View,
    fields: dict[str, str],
    replaced: EventTypeView | None,
    *,
    refused: HookfastError | None = None,
) -> Response:
    return view.render(
        "event_type_form.html",
        status=200 if refused is None else problem_of(refused).status,
        fields=fields,
        is_new=replaced is None,
        seen=None if replaced is None else seen(replaced.updated_at),
        errors=() if refused is None else faults(refused),
    )


def _text(schema: Any) -> str:
    return "" if schema is None else json.dumps(schema, indent=2, ensure_ascii=False)


def _example(event_type: EventTypeView, view: View) -> tuple[str | None, bool]:
    """Data as an event of this type has, and whether it is made up from the schema."""
    given = sample_of(event_type.name, event_type.json_schema, now=view.now)
    if given is not None:
        return shown(given)[0], False
    made_up = example_of(event_type.json_schema)
    return (None if made_up is None else _text(made_up)), True

"""The event catalogue: what the customer can subscribe to, with examples."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Response
from fastapi.responses import HTMLResponse

from api.access.authentication import Principal, Reader
from api.context.context import Context
from api.forms.sample import sample_of
from api.http.pagination import MAX_LIMIT, Page
from api.portal.catalogue import Branch, Leaf, tree_of
from api.portal.site import PORTAL
from api.routes.event_types import EventTypeView, get_event_type, list_event_types
from api.site.json_view import pretty
from api.site.page import PageView, View
from api.site.page_route import PageRouter
from hookfast.errors import NotFound
from hookfast.events.operational import is_reserved
from hookfast.strict_json.text import to_text

routes = PageRouter(PORTAL)


async def _for_customers(event_type: Annotated[EventTypeView, Depends(get_event_type)]) -> Any:
    if is_reserved(event_type.name):
        raise NotFound("There is no such event type.")
    return event_type


CustomersType = Annotated[EventTypeView, Depends(_for_customers)]


@routes.get("/event-types")
async def event_types_page(view: PageView, principal: Reader) -> Response:
    """Show the catalogue as a tree."""
    return view.render("event_types.html", branches=await catalogue(view.context, principal))


@routes.get("/event-types/{name}")
async def event_type_page(view: PageView, event_type: CustomersType) -> Response:
    """Show an event type: what it means, an example of its data, and its schema."""
    schema = event_type.json_schema
    return view.render(
        "event_type.html",
        event_type=event_type,
        example=example_text(event_type, view),
        schema=None if schema is None else to_text(schema, layout="indented"),
    )


@routes.get("/event-types/{name}/example")
async def event_type_example(view: PageView, event_type: CustomersType) -> Response:
    """Return the example alone, which the script shows inside the tree."""
    return HTMLResponse(
        view.html(
            "event_type_example.html", event_type=event_type, example=example_text(event_type, view)
        )
    )


async def catalogue(context: Context, principal: Principal) -> list[Branch]:
    """Return the event types that customers can subscribe to, as a tree."""
    leaves: list[Leaf] = []
    after: str | None = None
    while True:
        listing = await list_event_types(Page(limit=MAX_LIMIT, after=after), context, principal)
        leaves += [
            Leaf(each.name, each.description) for each in listing.data if not is_reserved(each.name)
        ]
        if listing.next_cursor is None:
            return tree_of(leaves)
        after = listing.data[-1].name


def example_text(event_type: EventTypeView, view: View) -> str | None:
    """Return example data of an event type; None if nothing is known about it."""
    sample = sample_of(event_type.name, event_type.json_schema, now=view.now)
    return None if sample.origin == "default" else pretty(sample.data)[0]

"""The first steps of a new installation, or of a new tenant: what is done, and what is next."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from api.http.pagination import Page
from api.routes.event_types import EventTypeView, list_event_types
from api.routes.events import list_events
from api.routes.tenants import list_tenants
from api.site.page import View
from hookfast.events.operational import is_reserved
from hookfast.events.schema_example import example_of
from hookfast.strict_json.text import to_text

_ONE = Page(limit=1, after=None)
_ALL = Page(limit=200, after=None)
_EXAMPLE = {"invoice_id": "in_4711", "amount": 129900}
_LONGEST_EXAMPLE = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step, with the page where it is done. `command` does it in a terminal instead."""

    title: str
    text: str
    done: bool
    button: str | None = None
    path: str | None = None
    command: str | None = None
    icon: str


async def read(view: View, *, endpoints: int) -> Sequence[Step]:
    """Return the steps until the first delivery. `endpoints`: how many endpoints there are."""
    assert view.visitor is not None  # noqa: S101 - narrows for the type checker
    context, principal = view.context, view.visitor.principal
    types = await list_event_types(_ALL, context, principal)
    own = [each for each in types.data if not is_reserved(each.name)]
    events = await list_events(_ONE, context, principal, tenant_id=view.tenant_id)
    tenant_id, steps = view.tenant_id, []
    if tenant_id is None:
        tenants = (await list_tenants(_ONE, context, principal)).data
        tenant_id = tenants[0].id if tenants else None
        steps.append(
            Step(
                title="Create a tenant",
                text="A tenant is a customer of yours. It owns endpoints and API keys.",
                done=bool(tenants),
                button="New tenant",
                path="/dashboard/tenants",
                icon="tenants",
            )
        )
    steps += [
        Step(
            title="Register an event type",
            text="It names a fact, such as order.invoice.paid, and may describe the data with a "
            "JSON Schema." + ("" if view.is_operator else " Operators register event types."),
            done=bool(own),
            button="New event type" if view.is_operator else None,
            path="/dashboard/event-types/new-type",
            icon="event-types",
        ),
        Step(
            title="Create an endpoint",
            text="A URL that receives events. Its subscriptions say which.",
            done=endpoints > 0,
            button="New endpoint" if view.can_write else None,
            path="/dashboard/endpoints/new",
            icon="endpoints",
        ),
        Step(
            title="Emit an event",
            text="An event was emitted, but no subscription matched it. Compare its type with the "
            "subscriptions of the endpoint, and emit another one."
            if events.data
            else "Each matching subscription gets a delivery, which shows here as it goes out.",
            done=False,
            command=_emit(own, tenant_id),
            icon="events",
        ),
    ]
    return steps


def _emit(types: Sequence[EventTypeView], tenant_id: str | None) -> str:
    """Return the command that emits an event of the first type that somebody registered."""
    name = types[0].name if types else "order.invoice.paid"
    schema = types[0].json_schema if types else None
    data = _in_ascii(to_text(_EXAMPLE if schema is None else example_of(schema), layout="spaced"))
    given = "--data-file data.json" if len(data) > _LONGEST_EXAMPLE or "'" in data else f"'{data}'"
    return f"hookfast emit {name} {given} --tenant {tenant_id or 'tnt_…'}"


def _in_ascii(text: str) -> str:
    """Escape the characters of a JSON text that a terminal may not take."""
    return re.sub(r"[^\x00-\x7f]+", lambda found: json.dumps(found[0])[1:-1], text)

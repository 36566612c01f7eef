"""The events: found again by id, key or type, read, and sent again."""

from __future__ import annotations

import json
from typing import Annotated, Final, Literal

from fastapi import Query, Response

from api.access.audit import Audit
from api.access.authentication import Reader, Writer
from api.dashboard.pages.delivery_list import SPANS, Within
from api.dashboard.site.form import filled
from api.dashboard.site.formatting import number
from api.dashboard.site.json_view import shown
from api.dashboard.site.page import PageView
from api.dashboard.site.page_route import page_router
from api.forms.event import MAX_KEY
from api.http.fields import EventPath
from api.http.pagination import Page, PageQuery
from api.process.context import AppContext
from api.routes.endpoints import list_endpoints
from api.routes.events import (
    EventSummaryView,
    list_event_deliveries,
    list_events,
    read_event,
)
from api.routes.recovery import ReplayDryRun, ReplayForm, ReplayView, replay_event
from hookfast.errors import InvalidInput
from hookfast.ids import Prefix, is_id

routes = page_router()

Only = Literal["all", "failed"]
_NAMED = Page(limit=200, after=None)
_PLACES: Final[dict[Prefix, str]] = {
    "evt": "events",
    "dlv": "deliveries",
    "inb": "inbox",
    "ep": "endpoints",
    "src": "sources",
    "job": "jobs",
}


@routes.get("/events")
async def events_page(
    view: PageView,
    page: PageQuery,
    context: AppContext,
    principal: Reader,
    find: Annotated[str | None, Query(max_length=MAX_KEY)] = None,
    type: Annotated[str | None, Query(max_length=200)] = None,
    within: Within | None = None,
) -> Response:
    """Events, the newest first. `find` is an id, which leads to what it names, or the idempotency
    key of an event."""
    for prefix, place in _PLACES.items():
        if find is not None and is_id(prefix, find):
            return view.go(f"/dashboard/{place}/{find}")
    listing = await list_events(
        page,
        context,
        principal,
        type=type,
        tenant_id=view.tenant_id,
        since=None if within is None else view.now - SPANS[within][0],
        idempotency_key=find,
    )
    return view.render(
        "events.html", listing=listing, find=find, type=type, within=within, spans=SPANS
    )


@routes.get("/events/{event_id}")
async def event_page(
    event_id: EventPath, view: PageView, page: PageQuery, context: AppContext, principal: Reader
) -> Response:
    """One event: its body, and what became of it."""
    event = await read_event(event_id, context, principal)
    text, whole = shown(event.body.decode())
    endpoints = await list_endpoints(_NAMED, context, principal, tenant_id=view.tenant_id)
    return view.render(
        "event.html",
        event=EventSummaryView.of(event, principal=principal),
        size=len(event.body),
        text=text,
        whole=whole,
        listing=await list_event_deliveries(event_id, page, context, principal),
        names={each.id: each.description or each.url or each.id for each in endpoints.data},
    )


@routes.get("/events/{event_id}/replay")
async def replay_page(
    event_id: EventPath,
    view: PageView,
    context: AppContext,
    audit: Audit,
    principal: Writer,
    only: Only = "all",
    include_new: bool = False,
) -> Response:
    """How many deliveries would be sent. Changes nothing."""
    event = await read_event(event_id, context, principal)
    form = ReplayForm(only=only, include_new=include_new, dry_run=True)
    counted = await replay_event(event_id, form, context, audit, principal)
    if isinstance(counted, ReplayView):
        raise InvalidInput("This was a job, not a count.")
    return view.render(
        "event_replay.html",
        event=event,
        counted=ReplayDryRun.model_validate(json.loads(bytes(counted.body))),
        only=only,
        include_new=include_new,
    )


@routes.post("/events/{event_id}/replay")
async def replay(
    event_id: EventPath, view: PageView, context: AppContext, audit: Audit, principal: Writer
) -> Response:
    """Send it again, with a job."""
    members = {
        "only": view.form.get("only", "all"),
        "include_new": view.form.text("include_new") is not None,
    }
    form = filled(ReplayForm, members)
    job = await replay_event(event_id, form, context, audit, principal)
    if not isinstance(job, ReplayView):
        raise InvalidInput("This was a count, not a job.")
    told = f"{number(job.total)} {'delivery is' if job.total == 1 else 'deliveries are'} resent"
    if job.new_deliveries:
        told += (
            f", and {number(job.new_deliveries)} {'is' if job.new_deliveries == 1 else 'are'} new"
        )
    return view.go(f"/dashboard/jobs/{job.id}", f"{told}.")

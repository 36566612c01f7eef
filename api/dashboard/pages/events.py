"""The events: found by id, idempotency key or type, shown, and replayed."""

from __future__ import annotations

import json
from typing import Annotated, Final, Literal
from urllib.parse import urlencode

from fastapi import Query, Response

from api.access.audit import Audit
from api.access.authentication import Reader, Writer
from api.dashboard.pages import tenant_names
from api.dashboard.pages.filter_choices import endpoints_to_choose, names_of
from api.dashboard.site import DASHBOARD
from api.forms.event import MAX_KEY
from api.forms.search import MAX_TEXT
from api.http.fields import EventPath, TenantId
from api.http.pagination import PageQuery
from api.routes.events import EventSummaryView, list_event_deliveries, list_events, read_event
from api.routes.recovery import ReplayDryRun, ReplayForm, ReplayView, replay_event
from api.site import choices
from api.site.form import validated
from api.site.json_view import pretty
from api.site.page import PageView
from api.site.page_route import PageRouter
from api.site.time_range import RangeQuery
from hookfast.ids import Prefix, is_id
from hookfast.plural import are, pluralize

routes = PageRouter(DASHBOARD)

Only = Literal["all", "failed"]
_PAGES: Final[dict[Prefix, str]] = {
    "evt": "events",
    "dlv": "deliveries",
    "inb": "inbox",
    "ep": "endpoints",
    "src": "sources",
    "job": "jobs",
}
"""The ids that have a page, by prefix, and the folder of its path."""


@routes.get("/events")
async def events_page(
    view: PageView,
    page: PageQuery,
    principal: Reader,
    times: RangeQuery,
    find: Annotated[str | None, Query(max_length=MAX_KEY)] = None,
    type: Annotated[str | None, Query(max_length=200)] = None,
    tenant_id: TenantId | None = None,
) -> Response:
    """List the events, newest first. `find` is the idempotency key of an event, or any id, which
    leads to its page."""
    for prefix, folder in _PAGES.items():
        if find is not None and is_id(prefix, find):
            return view.redirect(f"/dashboard/{folder}/{find}")
    listing = await list_events(
        page,
        view.context,
        principal,
        type=type,
        tenant_id=tenant_id or view.tenant_id,
        since=times.start(view.now),
        until=times.until,
        idempotency_key=find,
    )
    endpoints = []
    if view.can_write and times.any:
        endpoints = await endpoints_to_choose(view, view.context, principal)
    await tenant_names.load_owners(view, listing.data)
    replayed = {"event_type": type} | times.query()
    return view.render(
        "events.html",
        listing=listing,
        find=find,
        type=type,
        tenant_id=tenant_id,
        times=times,
        endpoints=[each for each in endpoints if each.url is not None],
        replayed="?" + urlencode({name: value for name, value in replayed.items() if value}),
    )


@routes.get("/events/{event_id}")
async def event_page(
    event_id: EventPath, view: PageView, page: PageQuery, principal: Reader
) -> Response:
    """Show an event: its body and its deliveries."""
    event = await read_event(event_id, view.context, principal)
    text, is_complete = pretty(event.body.decode())
    await tenant_names.load(view, event.tenant_id)
    return view.render(
        "event.html",
        event=EventSummaryView.of(event, principal=principal),
        size=len(event.body),
        text=text,
        is_complete=is_complete,
        listing=await list_event_deliveries(event_id, page, view.context, principal),
        names=names_of(await endpoints_to_choose(view, view.context, principal)),
    )


@routes.get("/events/{event_id}/replay")
async def replay_page(
    event_id: EventPath,
    view: PageView,
    audit: Audit,
    principal: Writer,
    only: Only = "all",
    include_new: bool = False,
    endpoint_id: Annotated[str | None, Query(max_length=MAX_TEXT)] = None,
) -> Response:
    """Show how many deliveries a replay would send. Changes nothing."""
    event = await read_event(event_id, view.context, principal)
    picked = await choices.pick(view, "endpoint_id", "endpoint", endpoint_id)
    await choices.offer(view, endpoint_id="endpoint")
    members = {"only": only, "include_new": include_new, "endpoint_id": picked, "dry_run": True}
    form = validated(ReplayForm, members)
    answer = await replay_event(event_id, form, view.context, audit, principal)
    assert isinstance(answer, Response)  # noqa: S101 - a dry run creates no job
    return view.render(
        "event_replay.html",
        event=event,
        counted=ReplayDryRun.model_validate(json.loads(bytes(answer.body))),
        only=only,
        include_new=include_new,
        endpoint_id=picked,
    )


@routes.post("/events/{event_id}/replay")
async def replay(event_id: EventPath, view: PageView, audit: Audit, principal: Writer) -> Response:
    """Start the job that replays an event."""
    members = {
        "only": view.form.get("only", "all"),
        "include_new": view.form.text("include_new") is not None,
        "endpoint_id": view.form.text("endpoint_id"),
    }
    form = validated(ReplayForm, members)
    job = await replay_event(event_id, form, view.context, audit, principal)
    assert isinstance(job, ReplayView)  # noqa: S101 - a Response answers dry runs only
    notice = f"{pluralize(job.total, 'delivery')} {are(job.total)} resent"
    if job.new_deliveries:
        notice += f", and {job.new_deliveries:,} {are(job.new_deliveries)} new"
    return view.redirect(f"/dashboard/jobs/{job.id}", f"{notice}.")

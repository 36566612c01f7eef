"""The dead letters: what there is of them, and sending them again."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

from fastapi import Query, Response

from api.access.audit import Audit
from api.access.authentication import Reader, Writer
from api.dashboard.pages.delivery_list import SPANS, Within
from api.dashboard.site import formatting
from api.dashboard.site.form import Form, filled
from api.dashboard.site.formatting import number
from api.dashboard.site.page import PageView
from api.dashboard.site.page_route import page_router
from api.forms.jobs import DryRun, JobView
from api.http.fields import EndpointId
from api.http.pagination import Page, PageQuery
from api.process.context import AppContext
from api.routes.dead_letters import (
    RedriveForm,
    count_dead_letters,
    list_dead_letters,
    redrive_dead_letters,
)
from api.routes.endpoints import list_endpoints
from hookfast.clock import rfc3339
from hookfast.errors import InvalidInput

routes = page_router()

_NAMED = Page(limit=200, after=None)
_GROUPS_SHOWN = 8
_TEXTS: Final = ("endpoint_id", "event_type", "reason", "tenant_id", "since")


@routes.get("/dead-letters")
async def dead_letters_page(
    view: PageView,
    page: PageQuery,
    context: AppContext,
    principal: Reader,
    endpoint_id: EndpointId | None = None,
    event_type: Annotated[str | None, Query(max_length=200)] = None,
    reason: Annotated[str | None, Query(max_length=200)] = None,
    within: Within | None = None,
) -> Response:
    """Dead letters: counted by endpoint, type and reason, and listed, the newest first."""
    since = None if within is None else view.now - SPANS[within][0]
    given = {"endpoint_id": endpoint_id, "event_type": event_type, "reason": reason}
    listing = await list_dead_letters(
        page,
        context,
        principal,
        endpoint_id=endpoint_id,
        event_type=event_type,
        reason=reason,
        tenant_id=view.tenant_id,
        since=since,
    )
    stats = await count_dead_letters(
        context, principal, tenant_id=view.tenant_id, endpoint_id=view.endpoint_id
    )
    endpoints = await list_endpoints(_NAMED, context, principal, tenant_id=view.tenant_id)
    names = {each.id: each.description or each.url or each.id for each in endpoints.data}
    # `within` becomes a time here, so that what is sent again is what is seen.
    members = given | {"tenant_id": view.tenant_id, "since": since and rfc3339(since)}
    return view.render(
        "dead_letters.html",
        listing=listing,
        stats=stats,
        by_endpoint=[
            (one.endpoint_id, names.get(one.endpoint_id, one.endpoint_id), one.count)
            for one in stats.by_endpoint[:_GROUPS_SHOWN]
        ],
        by_event_type=[
            (one.event_type, one.event_type, one.count)
            for one in stats.by_event_type[:_GROUPS_SHOWN]
        ],
        by_reason=[
            (one.reason, formatting.reason(one.reason) or "not said", one.count)
            for one in stats.by_reason[:_GROUPS_SHOWN]
        ],
        names=names,
        given={name: value for name, value in (given | {"within": within}).items() if value},
        members={name: value for name, value in members.items() if value},
        within=within,
        spans=SPANS,
    )


@routes.post("/dead-letters/redrive")
async def preview(view: PageView, context: AppContext, audit: Audit, principal: Writer) -> Response:
    """How many it would be. Changes nothing."""
    form = _redrive_form(view.form, dry_run=True)
    counted = await redrive_dead_letters(form, context, audit, principal)
    if isinstance(counted, JobView):
        raise InvalidInput("This was a job, not a count.")
    return view.preview(
        "redrive.html",
        counted=DryRun.model_validate(json.loads(bytes(counted.body))),
        given=_given(view.form),
        rate=context.settings.job_rate_per_second,
    )


@routes.post("/dead-letters/redrive/run")
async def run(view: PageView, context: AppContext, audit: Audit, principal: Writer) -> Response:
    """Make the job."""
    form = _redrive_form(view.form, dry_run=False)
    job = await redrive_dead_letters(form, context, audit, principal)
    if not isinstance(job, JobView):
        raise InvalidInput("This was a count, not a job.")
    redriven = "dead letter is" if job.total == 1 else "dead letters are"
    return view.go(f"/dashboard/jobs/{job.id}", f"{number(job.total)} {redriven} being redriven.")


def _redrive_form(form: Form, *, dry_run: bool) -> RedriveForm:
    """What the fields ask for. With `to` = `all` an empty filter means everything: the preview has
    said how many that is. Raises InvalidInput."""
    to_all = form.get("to") == "all"
    given = _given(form)
    if not to_all and "ids" not in given:
        raise InvalidInput.at("/ids", "select some dead letters first")
    rate = form.number("rate_per_second", pointer="/rate_per_second")
    members = {"dry_run": dry_run, "all": to_all, "filter": given, "rate_per_second": rate}
    return filled(RedriveForm, members)


def _given(form: Form) -> dict[str, Any]:
    """The members of the filter that were sent; what is ticked counts only where that was meant."""
    given: dict[str, Any] = {name: form.text(name) for name in _TEXTS}
    given["ids"] = (form.all("ids") or None) if form.get("to") != "all" else None
    return {name: value for name, value in given.items() if value is not None}

"""The dead letters: their counts and list, and redriving them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import Query, Response

from api.access.audit import Audit
from api.access.authentication import Principal, Reader, Writer
from api.dashboard.pages import tenant_names
from api.dashboard.pages.bulk import given_filter, selection
from api.dashboard.pages.filter_choices import endpoints_to_choose, names_of
from api.dashboard.site import DASHBOARD
from api.forms.jobs import DryRun, JobView
from api.http.fields import AnswerQuery, EndpointId, TenantId
from api.http.pagination import PageQuery
from api.routes.dead_letters import (
    RedriveForm,
    count_dead_letters,
    list_dead_letters,
    redrive_dead_letters,
)
from api.site import formatting
from api.site.form import Form, validated
from api.site.page import PageView, View
from api.site.page_route import PageRouter
from api.site.time_range import RangeQuery, TimeRange
from hookfast.deliveries.answer import SUGGESTED_ANSWERS, parse_answer
from hookfast.plural import are, pluralize
from hookfast.storage.deliveries import dead_letters
from hookfast.storage.deliveries.deliveries import DeliveryFilter
from hookfast.storage.endpoints import endpoints

routes = PageRouter(DASHBOARD)

_GROUPS_SHOWN = 8
_FILTERS: Final = (
    *("endpoint_id", "event_type", "reason", "answer", "tenant_id", "since", "until"),
)


@routes.get("/dead-letters")
async def dead_letters_page(
    view: PageView,
    page: PageQuery,
    principal: Reader,
    times: RangeQuery,
    endpoint_id: EndpointId | None = None,
    event_type: Annotated[str | None, Query(max_length=200)] = None,
    reason: Annotated[str | None, Query(max_length=200)] = None,
    answer: AnswerQuery = None,
    tenant_id: TenantId | None = None,
) -> Response:
    """Count the dead letters by endpoint, event type and reason, and list them, newest first."""
    tenant = tenant_id or view.tenant_id
    given = {
        "endpoint_id": endpoint_id,
        "event_type": event_type,
        "reason": reason,
        "tenant_id": tenant_id,
        "answer": answer,
    }
    listing = await list_dead_letters(page, view.context, principal, **times.narrowed(given, view))
    stats = await count_dead_letters(
        view.context, principal, tenant_id=tenant, endpoint_id=view.endpoint_id
    )
    by_endpoint = stats.by_endpoint[:_GROUPS_SHOWN]
    async with view.context.database.read() as connection:
        owners = await endpoints.owners(connection, [each.endpoint_id for each in by_endpoint])
    await tenant_names.load_owners(view, [*listing.data, *owners])
    narrowed = any((event_type, reason, answer)) or times.any
    names = names_of(await endpoints_to_choose(view, view.context, principal))
    members = given | {"tenant_id": tenant} | times.members(view.now)
    return view.render(
        "dead_letters.html",
        listing=listing,
        stats=stats,
        matching=await _matching(view, principal, given, times) if narrowed else None,
        by_endpoint=[
            (one.endpoint_id, names.get(one.endpoint_id, one.endpoint_id), one.count)
            for one in by_endpoint
        ],
        owners={each.id: each.tenant_id for each in owners},
        by_event_type=[
            (one.event_type, one.event_type, one.count)
            for one in stats.by_event_type[:_GROUPS_SHOWN]
        ],
        by_reason=[
            (one.reason, formatting.reason(one.reason) or "unknown", one.count)
            for one in stats.by_reason[:_GROUPS_SHOWN]
        ],
        names=names,
        given={name: value for name, value in given.items() if value},
        members={name: value for name, value in members.items() if value},
        times=times,
        answers=SUGGESTED_ANSWERS,
    )


async def _matching(
    view: View, principal: Principal, given: Mapping[str, Any], times: TimeRange
) -> str:
    """Return how many dead letters match the filter, in words."""
    chosen = times.narrowed(given, view)
    answer = chosen["answer"]
    chosen["answer"] = None if answer is None else parse_answer(answer, pointer="answer")
    chosen["endpoint_id"] = chosen["endpoint_id"] or view.endpoint_id
    chosen["tenant_id"] = principal.tenant_for(chosen["tenant_id"])
    async with view.context.database.read() as connection:
        count = await dead_letters.count(connection, DeliveryFilter(**chosen))
    if count is None:
        most = formatting.number(dead_letters.MOST)
        return f"More than {most} dead letters are in this time. Narrow it to count matching ones."
    return f"{pluralize(count, 'dead letter')} match{'es' if count == 1 else ''} the filter."


@routes.post("/dead-letters/redrive")
async def preview(view: PageView, audit: Audit, principal: Writer) -> Response:
    """Show how many dead letters would be redriven. Changes nothing."""
    form = _redrive_form(view.form, dry_run=True)
    answer = await redrive_dead_letters(form, view.context, audit, principal)
    assert isinstance(answer, Response)  # noqa: S101 - a dry run creates no job
    counted = DryRun.model_validate(json.loads(bytes(answer.body))).by_status
    given = given_filter(view.form, _FILTERS)
    await tenant_names.load(view, given.get("tenant_id"))
    return view.preview(
        "bulk.html",
        verb="Redrive",
        ends=False,
        nouns=("dead letter", "dead letters"),
        counted={status: count for status, count in counted.items() if count},
        given=given,
        effect="Each starts its retry plan again, with its own message id. Dead letters of "
        "disabled endpoints are skipped.",
        no_effect="No dead letter matches any more.",
    )


@routes.post("/dead-letters/redrive/run")
async def run(view: PageView, audit: Audit, principal: Writer) -> Response:
    """Create the job."""
    form = _redrive_form(view.form, dry_run=False)
    job = await redrive_dead_letters(form, view.context, audit, principal)
    assert isinstance(job, JobView)  # noqa: S101 - a Response answers dry runs only
    redriven = f"{pluralize(job.total, 'dead letter')} {are(job.total)} being redriven."
    return view.redirect(f"/dashboard/jobs/{job.id}", redriven)


def _redrive_form(form: Form, *, dry_run: bool) -> RedriveForm:
    """Return the API's form with the submitted fields. Raises InvalidInput."""
    given = given_filter(form, _FILTERS)
    members = {"dry_run": dry_run} | selection(form, given, noun="dead letters")
    return validated(RedriveForm, members)

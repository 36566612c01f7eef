"""Sending an endpoint's past deliveries again, of a time range: those that failed, or all of them.
Both pages count before anything is sent."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from fastapi import Query, Response

from api.access.audit import Audit
from api.access.authentication import Writer
from api.dashboard.site import DASHBOARD
from api.forms.endpoint import EndpointView
from api.forms.jobs import JobView, count
from api.http.fields import EndpointPath
from api.routes.deliveries import DeliveryActionForm, act_on_deliveries
from api.routes.recovery import RecoverForm, recover_endpoint
from api.site.form import validated
from api.site.formatting import number
from api.site.from_path import StoredEndpoint
from api.site.page import PageView, View
from api.site.page_route import PageRouter
from api.site.time_range import RangeQuery, TimeRange
from hookfast.clock import rfc3339
from hookfast.deliveries.figures import DEAD
from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.events.event_type import parse_event_type
from hookfast.storage.deliveries.selection import DeliverySelection

routes = PageRouter(DASHBOARD)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FINISHED: Final = [status.value for status in DeliveryStatus if status.finished]


@routes.get("/endpoints/{endpoint_id}/recover")
async def recover_page(
    endpoint: StoredEndpoint, view: PageView, principal: Writer, times: RangeQuery
) -> Response:
    """Count the deliveries that failed in a range, before they are resent."""
    times = _limited(times)
    members = times.members(view.now)
    start = times.start(view.now) or _EPOCH
    chosen = DeliverySelection(
        endpoint_id=endpoint.id, statuses=DEAD, finished_since=start, finished_until=times.until
    )
    return _render(
        view,
        endpoint,
        times,
        counted=await count(view.context, principal, chosen, action="resend"),
        members=members | {"since": rfc3339(start)},
        replays=False,
    )


@routes.post("/endpoints/{endpoint_id}/recover")
async def recover(
    endpoint_id: EndpointPath, view: PageView, audit: Audit, principal: Writer
) -> Response:
    """Start the job that resends what failed in the range of the form."""
    members = {"since": view.form.get("since", ""), "until": view.form.text("until")}
    form = validated(RecoverForm, members)
    job = await recover_endpoint(endpoint_id, form, view.context, audit, principal)
    return _started(view, job)


@routes.get("/endpoints/{endpoint_id}/replay")
async def replay_page(
    endpoint: StoredEndpoint,
    view: PageView,
    principal: Writer,
    times: RangeQuery,
    event_type: Annotated[str | None, Query(max_length=200)] = None,
) -> Response:
    """Count the ended deliveries of the events that were emitted in a range, before they are
    resent."""
    if event_type is not None:
        parse_event_type(event_type, pointer="event_type")
    times = _limited(times)
    members = times.members(view.now) | {"event_type": event_type}
    form = _replay_form(endpoint.id, members)
    return _render(
        view,
        endpoint,
        times,
        counted=await count(
            view.context, principal, form.filter.selection_for("resend"), action="resend"
        ),
        members=members,
        replays=True,
    )


@routes.post("/endpoints/{endpoint_id}/replay")
async def replay(
    endpoint: StoredEndpoint, view: PageView, audit: Audit, principal: Writer
) -> Response:
    """Start the job that resends the deliveries of the range of the form."""
    members = {name: view.form.text(name) for name in ("since", "until", "event_type")}
    form = _replay_form(endpoint.id, members)
    job = await act_on_deliveries(form, view.context, audit, principal)
    return _started(view, job)


def _replay_form(endpoint_id: str, members: dict[str, str | None]) -> DeliveryActionForm:
    """Return the API's form that resends the endpoint's ended deliveries that were created in the
    range. Raises InvalidInput."""
    chosen: dict[str, Any] = members | {"endpoint_id": endpoint_id, "status": _FINISHED}
    return validated(DeliveryActionForm, {"action": "resend", "filter": chosen})


def _limited(times: TimeRange) -> TimeRange:
    """Return the range; the last day if none is chosen."""
    return times if times.any else replace(times, span="24h")


def _render(
    view: View,
    endpoint: EndpointView,
    times: TimeRange,
    *,
    counted: dict[DeliveryStatus, int],
    members: dict[str, str | None],
    replays: bool,
) -> Response:
    return view.render(
        "endpoint_recovery.html",
        endpoint=endpoint,
        times=times,
        counted=counted,
        members=members,
        replays=replays,
    )


def _started(view: View, job: JobView | Response) -> Response:
    assert isinstance(job, JobView)  # noqa: S101 - a Response answers dry runs only
    noun = "delivery is" if job.total == 1 else "deliveries are"
    return view.redirect(f"/dashboard/jobs/{job.id}", f"{number(job.total)} {noun} being resent.")

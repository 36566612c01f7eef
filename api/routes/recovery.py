"""Recovery: sending an endpoint's failed deliveries again, and replaying one event to its
subscribers, including later ones."""

from __future__ import annotations

from typing import Literal

from fastapi import Response
from pydantic import Field

from api.access.audit import Audit
from api.access.authentication import Principal, Writer
from api.access.ownership import owned
from api.context.context import AppContext, Context
from api.forms import jobs
from api.forms.endpoint import require_push
from api.forms.jobs import (
    JOB_RESPONSES,
    JOB_ROUTE,
    DryRun,
    JobOptions,
    JobView,
    draft_job,
    dry_run_response,
    job_created,
)
from api.http.fields import EndpointId, EndpointPath, EventPath, TimeInput, example
from api.http.routing import router
from api.routes.events import visible_event
from hookfast.deliveries.figures import DEAD
from hookfast.deliveries.job import JobKind
from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.endpoints.circuit import EndpointState
from hookfast.errors import Conflict, InvalidInput
from hookfast.storage.deliveries import jobs as stored_jobs
from hookfast.storage.deliveries.selection import DeliverySelection
from hookfast.storage.emitting import late_subscribers
from hookfast.storage.emitting.late_subscribers import LateScope
from hookfast.storage.endpoints import endpoints
from hookfast.storage.events import events
from hookfast.storage.events.events import EventSummary

routes = router("Recovery")

_FINISHED = tuple(status for status in DeliveryStatus if status.finished)


class RecoverForm(JobOptions):
    """The time window of the failed deliveries."""

    model_config = example(since="2026-11-20T11:15:00Z")

    since: TimeInput = Field(description="Failed at this time or later.")
    until: TimeInput | None = Field(None, description="Failed before this time; default: now.")


class ReplayForm(JobOptions):
    """The deliveries of an event to send again."""

    model_config = example(only="failed", include_new=True)

    endpoint_id: EndpointId | None = Field(None, description="Only to this endpoint.")
    only: Literal["all", "failed"] = Field(
        "all",
        description="`all` sends every delivery that has ended; `failed` only those that ended "
        "without success.",
    )
    include_new: bool = Field(
        False,
        description="Also deliver the event to matching subscriptions that have no delivery of it, "
        "because they were created later.",
    )


class ReplayView(JobView):
    """A replay: a job for the existing deliveries, and new deliveries."""

    new_deliveries: int = Field(description="Deliveries created for subscriptions without one.")


class ReplayDryRun(DryRun):
    """The deliveries that a replay would send."""

    new_deliveries: int = Field(
        description="Deliveries that would be created for subscriptions without one."
    )


@routes.post(
    "/endpoints/{endpoint_id}/recover", summary="Send failed deliveries again", **JOB_ROUTE
)
async def recover_endpoint(
    endpoint_id: EndpointPath,
    form: RecoverForm,
    context: AppContext,
    audit: Audit,
    principal: Writer,
) -> JobView | Response:
    """Sends every delivery again that ended without success in the time window, under its own
    message id."""
    if form.until is not None and form.until <= form.since:
        raise InvalidInput.at("/until", "must be later than `since`")
    async with context.database.read() as connection:
        endpoint = require_push(owned(await endpoints.get(connection, endpoint_id), principal))
    if endpoint.state == EndpointState.DISABLED and not form.dry_run:
        raise Conflict(
            "The endpoint is disabled, so nothing would be sent. Enable it first.",
            code="endpoint_disabled",
        )
    return await jobs.create_or_count(
        context,
        principal,
        audit,
        owner=endpoint.tenant_id,
        kind=JobKind.RECOVER,
        action="resend",
        chosen=DeliverySelection(
            endpoint_id=endpoint_id,
            statuses=DEAD,
            finished_since=form.since,
            finished_until=form.until,
        ),
        options=form,
    )


@routes.post(
    "/events/{event_id}/replay",
    status_code=202,
    summary="Send an event again",
    response_model=ReplayView,
    responses={200: JOB_RESPONSES[200] | {"model": ReplayDryRun}},
)
async def replay_event(
    event_id: EventPath, form: ReplayForm, context: AppContext, audit: Audit, principal: Writer
) -> ReplayView | Response:
    """Sends the event's deliveries again under their message ids, so that receivers that remember
    ids recognise them as repeated."""
    async with context.database.read() as connection:
        event = visible_event(await events.get_summary(connection, event_id), principal)
        if form.endpoint_id is not None:
            require_push(owned(await endpoints.get(connection, form.endpoint_id), principal))
    chosen = DeliverySelection(
        event_id=event_id,
        endpoint_id=form.endpoint_id,
        statuses=_FINISHED if form.only == "all" else DEAD,
    )
    late = LateScope(tenant_id=principal.tenant_id, endpoint_id=form.endpoint_id)
    if form.dry_run:
        return await _count(context, principal, chosen, event, late if form.include_new else None)
    # Drafted before new deliveries are created, so that those are not sent twice.
    job = await draft_job(
        context,
        principal,
        kind=JobKind.REPLAY,
        action="resend",
        chosen=chosen,
        rate_per_second=form.rate_per_second,
    )
    new = 0
    async with context.database.write() as connection:
        if form.include_new:
            new = await late_subscribers.deliver(connection, event, late, now=context.clock())
        await stored_jobs.add(connection, job)
        owner = event.tenant_id or principal.tenant_id
        await audit.record(connection, job_created(job, owner=owner, new_deliveries=new))
    context.workflow_starter.wake()
    if new:
        context.doorbell.ring()
    return ReplayView.of(job, context=context, new_deliveries=new)


async def _count(
    context: Context,
    principal: Principal,
    chosen: DeliverySelection,
    event: EventSummary,
    late: LateScope | None,
) -> Response:
    counted = await jobs.count(context, principal, chosen, action="resend")
    new = 0
    if late is not None:
        async with context.database.read() as connection:
            new = len(await late_subscribers.find(connection, event, late))
    return dry_run_response(ReplayDryRun.of(counted, new_deliveries=new))

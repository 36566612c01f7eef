"""Jobs for the routes that make them: dry runs, drafts, and how a job is shown.

A job counts what it will act on when it is made, and deliveries that come later do not join. So a
dry run and the job that follows it count the same, as long as nothing happens in between.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final, Literal, Self

from fastapi import Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from sqlalchemy.ext.asyncio import AsyncConnection

from api.access.audit import RequestAudit
from api.access.authentication import Principal
from api.http.fields import Input, Time
from api.http.workflow_link import WorkflowView, workflow_view
from api.process.context import Context
from hookfast.audit import AuditAction, Change, differences
from hookfast.deliveries.job import MAX_RATE, MIN_RATE, JobKind, JobStatus, job_workflow_id
from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.errors import InvalidInput
from hookfast.ids import new_id
from hookfast.storage.audit.audited import facts
from hookfast.storage.deliveries import jobs, selection
from hookfast.storage.deliveries.actions import UserAction
from hookfast.storage.deliveries.jobs import progress_of
from hookfast.storage.deliveries.selection import DeliverySelection
from hookfast.storage.tables import Job

STEERING: Final[Mapping[str, AuditAction]] = {
    "pause": "delivery.pause",
    "resume": "delivery.resume",
    "resend": "delivery.resend",
    "cancel": "delivery.cancel",
}
"""What the audit log calls steering a delivery, or many."""
JobAction = Literal[UserAction, "ask_again"]
"""What a job may ask: also that what waits at its endpoint's limits asks again, as they were
raised."""
_OURS: Final = ("up_to", "after", "without")
"""What we add to a filter."""
_MEASURABLE = timedelta(seconds=5)
"""A job's speed is known once it has run this long."""


class JobOptions(Input):
    """What every request for a job can say."""

    dry_run: bool = Field(False, description="Only count what it would act on; change nothing.")
    rate_per_second: float | None = Field(
        None,
        ge=MIN_RATE,
        le=MAX_RATE,
        description="Deliveries to act on per second; default, and most for a tenant's key: "
        "`HOOKFAST_JOB_RATE_PER_SECOND`.",
    )


class JobView(BaseModel):
    """One action on many deliveries."""

    id: str
    kind: JobKind
    action: JobAction
    status: JobStatus
    filter: dict[str, Any] = Field(description="What was chosen.")
    total: int = Field(description="Deliveries that were chosen when it was made.")
    done: int = Field(
        description="Deliveries that have moved: a resend counts once its attempt was made, or "
        "once it waits for an endpoint that is not well. At the end this can be less than `total`, "
        "as some may have changed meanwhile."
    )
    skipped: int = Field(
        description="Deliveries for which it made no sense any more, such as those that had ended, "
        "or whose endpoint is disabled."
    )
    failed: int = Field(description="Always 0; kept for programs that read it.")
    percent: float
    rate_per_second: float
    cancel_requested: bool
    error: str | None
    requested_by: str | None = Field(
        description="Id of the API key, or of the one that made the portal link. A tenant sees its "
        "own keys only."
    )
    created_at: Time
    started_at: Time | None
    finished_at: Time | None
    eta_seconds: float | None = Field(description="About how long it still takes; null at its end.")
    workflow: WorkflowView

    @classmethod
    def of(cls, job: Job, *, context: Context, **more: Any) -> Self:
        """What is shown of a stored job."""
        members = job.model_dump(exclude={"chosen", "tenant_id", "cursor", "updated_at"})
        return cls(
            **members | more,
            filter=_filter(job),
            percent=_percent(job),
            eta_seconds=_eta_seconds(job),
            workflow=workflow_view(context, job_workflow_id(job.id)),
        )


class DryRun(BaseModel):
    """What a job would act on."""

    dry_run: Literal[True] = True
    matching: int
    by_status: dict[DeliveryStatus, int]

    @classmethod
    def of(cls, counted: Mapping[DeliveryStatus, int], **more: Any) -> Self:
        """The answer of a dry run that counted this."""
        return cls(matching=sum(counted.values()), by_status=dict(counted), **more)


JOB_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    200: {"model": DryRun, "description": "A dry run: nothing was changed."}
}
"""What a route that makes jobs documents besides its 202."""


async def run(
    context: Context,
    principal: Principal,
    audit: RequestAudit,
    *,
    kind: JobKind,
    action: UserAction,
    chosen: DeliverySelection,
    options: JobOptions,
    owner: str | None = None,
) -> JobView | Response:
    """The answer to a request for a job: the job, or what its dry run counted. `owner` is the
    tenant whose deliveries they are, where that is known."""
    if options.dry_run:
        counted = await count(context, principal, chosen, resend=action == "resend")
        return dry_run_answer(DryRun.of(counted))
    job = await make_job(
        context,
        principal,
        audit,
        owner=owner,
        kind=kind,
        action=action,
        chosen=chosen,
        rate_per_second=options.rate_per_second,
    )
    return JobView.of(job, context=context)


async def make_job(
    context: Context,
    principal: Principal,
    audit: RequestAudit,
    *,
    owner: str | None,
    kind: JobKind,
    action: UserAction,
    chosen: DeliverySelection,
    rate_per_second: float | None = None,
) -> Job:
    """A job that is committed; a worker begins it at once. Raises InvalidInput for a rate that this
    caller may not ask for."""
    job = await draft_job(
        context,
        principal,
        kind=kind,
        action=action,
        chosen=chosen,
        rate_per_second=rate_per_second,
    )
    async with context.database.write() as connection:
        await jobs.add(connection, job)
        await audit.record(connection, asked_for(job, owner=owner))
    context.workflow_starter.wake()
    return job


async def draft_job(
    context: Context,
    principal: Principal,
    *,
    kind: JobKind,
    action: JobAction,
    chosen: DeliverySelection,
    rate_per_second: float | None = None,
) -> Job:
    """A job to be stored with `jobs.add` in the caller's transaction, which then has to ring the
    workflow_starter. Its deliveries are counted before: that takes long where they are many."""
    rate = _rate(rate_per_second, principal=principal, usual=context.settings.job_rate_per_second)
    chosen = _confined(chosen, principal)
    async with context.database.read() as connection:
        chosen = replace(
            chosen,
            up_to=await selection.newest_id(connection),
            without=await _being_resent(connection) if action == "resend" else (),
        )
        counted = await selection.count(connection, chosen)
    now = context.clock()
    return Job(
        id=new_id("job", now),
        tenant_id=principal.tenant_id,
        kind=kind.value,
        action=action,
        chosen=chosen.document(),
        rate_per_second=rate,
        status=JobStatus.PENDING.value,
        total=sum(counted.values()),
        requested_by=principal.key_id,
        created_at=now,
        updated_at=now,
    )


def asked_for(job: Job, *, owner: str | None, **more: Any) -> Change:
    """What the audit log says of a new job: what it does, with the one endpoint or event that it is
    about, else under its own id."""
    about = {"job_id": job.id, **facts(job)} | more
    about["filter"] = _filter(job)
    actions: Mapping[JobKind, tuple[AuditAction, str, str]] = {
        JobKind.ACTION: (STEERING[job.action], "job", job.id),
        JobKind.REDRIVE: ("dead_letter.redrive", "job", job.id),
        JobKind.RECOVER: ("endpoint.recover", "endpoint", job.chosen.get("endpoint_id", job.id)),
        JobKind.REPLAY: ("event.replay", "event", job.chosen.get("event_id", job.id)),
    }
    action, resource, resource_id = actions[JobKind(job.kind)]
    return Change(
        action=action,
        resource=resource,
        resource_id=resource_id,
        tenant_id=owner or job.chosen.get("tenant_id") or job.tenant_id,
        changes=differences({}, about),
    )


async def count(
    context: Context, principal: Principal, chosen: DeliverySelection, *, resend: bool
) -> dict[DeliveryStatus, int]:
    """How many deliveries a job would act on, by their status; one that is to `resend` leaves out
    what another such job has yet to come to."""
    async with context.database.read() as connection:
        if resend:
            chosen = replace(chosen, without=await _being_resent(connection))
        return await selection.count(connection, _confined(chosen, principal))


async def _being_resent(connection: AsyncConnection) -> tuple[DeliverySelection, ...]:
    """What the jobs under way are yet to send again: asking twice sends once."""
    return tuple(
        replace(DeliverySelection.of(job.chosen), after=job.cursor, without=())
        for job in await jobs.resending(connection)
    )


def dry_run_answer(counted: DryRun) -> Response:
    """The answer 200 of a dry run."""
    return JSONResponse(counted.model_dump(mode="json"))


def _confined(chosen: DeliverySelection, principal: Principal) -> DeliverySelection:
    """A tenant's key acts on its tenant's deliveries only, and a portal link to one endpoint on
    that endpoint's, whatever its form says."""
    return replace(
        chosen,
        tenant_id=principal.tenant_for(chosen.tenant_id),
        endpoint_id=principal.endpoint_for(chosen.endpoint_id),
    )


def _rate(wanted: float | None, *, principal: Principal, usual: float) -> float:
    if wanted is not None and principal.tenant_id is not None and wanted > usual:
        raise InvalidInput.at("/rate_per_second", f"at most {usual:g} with a tenant's key")
    return usual if wanted is None else wanted


def _filter(job: Job) -> dict[str, Any]:
    """What was chosen, without what we add to it."""
    return {name: value for name, value in job.chosen.items() if name not in _OURS}


def _percent(job: Job) -> float:
    if JobStatus(job.status) is JobStatus.DONE:
        return 100.0
    # Deliveries move while it runs, so it may meet a few more or less than it counted.
    handled = progress_of(job).handled
    return min(99.9, round(100 * handled / job.total, 1)) if job.total else 0.0


def _eta_seconds(job: Job) -> float | None:
    if JobStatus(job.status).finished:
        return None
    handled, speed = progress_of(job).handled, job.rate_per_second
    if job.started_at is not None and job.updated_at - job.started_at > _MEASURABLE and handled:
        speed = min(speed, handled / (job.updated_at - job.started_at).total_seconds())
    return round(max(0, job.total - handled) / speed, 1)

"""Jobs for the routes that create them: dry runs, drafts, and the view of a job.

A job counts the deliveries that it will act on when it is created, and leaves out later ones. So a
dry run and a job that follows it count the same, unless something changes in between.
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
from api.context.context import Context
from api.http.fields import Input, Time
from api.http.workflow_link import WorkflowView, workflow_view
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

AUDIT_ACTIONS: Final[Mapping[str, AuditAction]] = {
    "pause": "delivery.pause",
    "resume": "delivery.resume",
    "resend": "delivery.resend",
    "cancel": "delivery.cancel",
}
"""The names in the audit log of actions on one delivery or many."""
JobAction = Literal[UserAction, "ask_again"]
"""The actions of jobs. `ask_again`: deliveries that wait for their endpoint's limits check them
again, because these were raised."""
_INTERNAL: Final = ("up_to", "after", "without")
"""The members of a stored filter that we add."""
_MEASURABLE = timedelta(seconds=5)
"""A job's speed is measured once it has run this long."""


class JobOptions(Input):
    """Options of every request for a job."""

    dry_run: bool = Field(False, description="Only count the deliveries; change nothing.")
    rate_per_second: float | None = Field(
        None,
        ge=MIN_RATE,
        le=MAX_RATE,
        description="Deliveries to act on per second; default, and maximum for a tenant's key: "
        "`HOOKFAST_JOB_RATE_PER_SECOND`.",
    )


class JobView(BaseModel):
    """One action on many deliveries."""

    id: str = Field(description="Id of the job, `job_…`.")
    kind: JobKind = Field(
        description="The request that created it: `action` on filtered deliveries, `redrive` of "
        "dead letters, `recover` of an endpoint, `replay` of an event, or raised `limits`."
    )
    action: JobAction = Field(
        description="What is done with each delivery. `ask_again`: it checks its endpoint's limits "
        "again, because these were raised."
    )
    status: JobStatus = Field(
        description="`pending` until a worker begins it, then `running`; at the end `done`, "
        "`cancelled`, or `failed` (`error` says why)."
    )
    filter: dict[str, Any] = Field(description="The filter that selected the deliveries.")
    total: int = Field(description="Deliveries that the filter matched when the job was created.")
    done: int = Field(
        description="Deliveries acted on: a resend counts once its attempt was made, or once it "
        "is held for an unhealthy endpoint. At the end this can be less than `total`, because some "
        "deliveries may have changed meanwhile."
    )
    skipped: int = Field(
        description="Deliveries on which the action no longer has an effect, such as finished "
        "ones, or those whose endpoint is disabled."
    )
    failed: int = Field(description="Always 0; kept for programs that read it.")
    percent: float = Field(description="Progress from 0 to 100, with one decimal.")
    rate_per_second: float = Field(description="Highest number of deliveries acted on per second.")
    cancel_requested: bool = Field(description="Whether somebody asked to stop it.")
    error: str | None = Field(description="Why it failed; null if it did not.")
    requested_by: str | None = Field(
        description="Id of the API key that created the job, or that created the portal link used "
        "for it. A tenant sees only its own keys."
    )
    created_at: Time
    started_at: Time | None = Field(description="When a worker began it; null while it waits.")
    finished_at: Time | None
    eta_seconds: float | None = Field(description="Estimated remaining time; null at the end.")
    workflow: WorkflowView

    @classmethod
    def of(cls, job: Job, *, context: Context, **more: Any) -> Self:
        """Return the view of a stored job."""
        members = job.model_dump(exclude={"filter", "tenant_id", "cursor", "updated_at"})
        return cls(
            **members | more,
            filter=_filter(job),
            percent=_percent(job),
            eta_seconds=_eta_seconds(job),
            workflow=workflow_view(context, job_workflow_id(job.id), closed_at=job.finished_at),
        )


class DryRun(BaseModel):
    """The deliveries that a job would act on, by their status."""

    dry_run: Literal[True] = Field(True, description="Always true: nothing was changed.")
    matching: int = Field(description="Deliveries that the job would act on.")
    by_status: dict[DeliveryStatus, int] = Field(
        description="The same by their present status; a status without any is left out."
    )

    @classmethod
    def of(cls, counted: Mapping[DeliveryStatus, int], **more: Any) -> Self:
        """Return the result of a dry run with these counts."""
        return cls(matching=sum(counted.values()), by_status=dict(counted), **more)


JOB_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    200: {"model": DryRun, "description": "A dry run: nothing was changed."}
}
"""The documented responses of routes that create jobs, besides 202."""
JOB_ROUTE: Final[dict[str, Any]] = {
    "status_code": 202,
    "response_model": JobView,
    "responses": JOB_RESPONSES,
}
"""The options of a route that returns `create_or_count`."""


async def create_or_count(
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
    """Create a job, or for a dry run only count. `owner` is the tenant that owns the deliveries, if
    they are of one tenant."""
    if options.dry_run:
        counted = await count(context, principal, chosen, resend=action == "resend")
        return dry_run_response(DryRun.of(counted))
    job = await create_job(
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


async def create_job(
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
    """Create and commit a job, which a worker starts at once. Raises InvalidInput for a rate that
    this caller may not use."""
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
        await audit.record(connection, job_created(job, owner=owner))
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
    """Return a job that the caller stores with `jobs.add` in its own transaction, and for which it
    then wakes the workflow starter. The deliveries are counted here, before that transaction, since
    counting many takes long."""
    rate = _rate(rate_per_second, principal=principal, default=context.settings.job_rate_per_second)
    chosen = _within_scope(chosen, principal)
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
        filter=chosen.document(),
        rate_per_second=rate,
        status=JobStatus.PENDING.value,
        total=sum(counted.values()),
        requested_by=principal.key_id,
        created_at=now,
        updated_at=now,
    )


def job_created(job: Job, *, owner: str | None, **more: Any) -> Change:
    """Return the audit log's entry for a new job. Its resource is the endpoint or event that the
    job is about, otherwise the job."""
    members = {"job_id": job.id, **facts(job)} | more
    members["filter"] = _filter(job)
    actions: Mapping[JobKind, tuple[AuditAction, str, str]] = {
        JobKind.ACTION: (AUDIT_ACTIONS[job.action], "job", job.id),
        JobKind.REDRIVE: ("dead_letter.redrive", "job", job.id),
        JobKind.RECOVER: ("endpoint.recover", "endpoint", job.filter.get("endpoint_id", job.id)),
        JobKind.REPLAY: ("event.replay", "event", job.filter.get("event_id", job.id)),
    }
    action, resource, resource_id = actions[JobKind(job.kind)]
    return Change(
        action=action,
        resource=resource,
        resource_id=resource_id,
        tenant_id=owner or job.filter.get("tenant_id") or job.tenant_id,
        changes=differences({}, members),
    )


async def count(
    context: Context, principal: Principal, chosen: DeliverySelection, *, resend: bool
) -> dict[DeliveryStatus, int]:
    """Count the deliveries that a job would act on, by status. With `resend`, leave out those that
    a running resend job has yet to send."""
    async with context.database.read() as connection:
        if resend:
            chosen = replace(chosen, without=await _being_resent(connection))
        return await selection.count(connection, _within_scope(chosen, principal))


async def _being_resent(connection: AsyncConnection) -> tuple[DeliverySelection, ...]:
    """Return the deliveries that running jobs have yet to resend, so that two requests resend them
    once."""
    return tuple(
        replace(DeliverySelection.from_document(job.filter), after=job.cursor, without=())
        for job in await jobs.unfinished_resends(connection)
    )


def dry_run_response(counted: DryRun) -> Response:
    """Return the 200 response of a dry run."""
    return JSONResponse(counted.model_dump(mode="json"))


def _within_scope(chosen: DeliverySelection, principal: Principal) -> DeliverySelection:
    """Limit the selection to the deliveries of the caller's tenant and, for a portal link to one
    endpoint, of that endpoint."""
    return replace(
        chosen,
        tenant_id=principal.tenant_for(chosen.tenant_id),
        endpoint_id=principal.endpoint_for(chosen.endpoint_id),
    )


def _rate(requested: float | None, *, principal: Principal, default: float) -> float:
    if requested is not None and principal.tenant_id is not None and requested > default:
        raise InvalidInput.at("/rate_per_second", f"at most {default:g} with a tenant's key")
    return default if requested is None else requested


def _filter(job: Job) -> dict[str, Any]:
    """Return the caller's filter, without the members that we add."""
    return {name: value for name, value in job.filter.items() if name not in _INTERNAL}


def _percent(job: Job) -> float:
    if JobStatus(job.status) is JobStatus.DONE:
        return 100.0
    # Deliveries change while the job runs, so it may act on a few more or fewer than it counted.
    handled = progress_of(job).handled
    return min(99.9, round(100 * handled / job.total, 1)) if job.total else 0.0


def _eta_seconds(job: Job) -> float | None:
    if JobStatus(job.status).finished:
        return None
    handled, speed = progress_of(job).handled, job.rate_per_second
    if job.started_at is not None and job.updated_at - job.started_at > _MEASURABLE and handled:
        speed = min(speed, handled / (job.updated_at - job.started_at).total_seconds())
    return round(max(0, job.total - handled) / speed, 1)

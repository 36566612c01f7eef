"""Endpoint control: pause, resume, enable, disable, and an endpoint's health."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial

from pydantic import BaseModel, Field
from sqlalchemy.ext.asyncio import AsyncConnection

from api.access.audit import Audit, RequestAudit
from api.access.authentication import Principal, Reader, Writer
from api.access.ownership import found, owned
from api.context.context import AppContext, Context
from api.forms.endpoint import EndpointView
from api.forms.jobs import JobView, create_job
from api.http.fields import EndpointPath, Input, Time, example
from api.http.routing import router
from api.http.workflow_link import WorkflowView, workflow_view
from hookfast.audit import AuditAction
from hookfast.deliveries.figures import DEAD
from hookfast.deliveries.job import JobKind
from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.endpoints.circuit import Cause, Circuit, EndpointState, State
from hookfast.endpoints.health import DISABLED_BY_REQUEST, Health, derive_health
from hookfast.endpoints.outage import workflow_id
from hookfast.errors import Conflict
from hookfast.owners.notice import NoticeKind, NoticeStatus
from hookfast.storage.audit.audited import done, facts
from hookfast.storage.circuits import circuits
from hookfast.storage.counting.reading import Scope
from hookfast.storage.deliveries.selection import DeliverySelection
from hookfast.storage.endpoints import derived_health, endpoint_state, endpoints
from hookfast.storage.feed import poll, poll_positions
from hookfast.storage.feed.poll import MAX_COUNTED
from hookfast.storage.figures import waiting
from hookfast.storage.owners import notices
from hookfast.storage.tables import Endpoint, Notice

routes = router("Endpoint control")

_Change = Callable[..., Awaitable[bool]]
"""Called with a connection, an endpoint's id and `now`; returns whether anything changed."""


class EnableForm(Input):
    """Options of enabling an endpoint."""

    model_config = example(redrive=True)

    redrive: bool = Field(
        False,
        description="Also create a job that sends all current dead letters of the endpoint again.",
    )


class EnabledEndpoint(EndpointView):
    """The endpoint, and the job that sends its dead letters again, if one was requested."""

    job: JobView | None = Field(description="Null unless `redrive` was requested.")


class CircuitView(BaseModel):
    """An endpoint's circuit breaker."""

    state: State = Field(
        description="`closed`: deliveries are sent. `open`: deliveries are held. `half_open`: one "
        "delivery probes whether the endpoint is back. `draining`: held deliveries are released "
        "at an increasing rate."
    )
    episode: int = Field(description="The number of outages so far.")
    cause: Cause | None = Field(description="The cause of the last outage.")
    opened_at: Time | None = Field(description="When the last outage began.")
    probes: int = Field(description="Failed probes since the last success.")
    next_probe_at: Time | None = Field(
        description="When a delivery probes the endpoint next; null unless it is failing."
    )
    drain_rate_per_second: float | None = Field(
        description="Held deliveries released per second while it is `draining`; otherwise null."
    )
    drained: int = Field(description="Held deliveries released in the last outage.")
    disable_at: Time | None = Field(
        description="When the endpoint is disabled if no delivery succeeds."
    )
    workflow: WorkflowView | None = Field(
        description="The workflow of the outages; null before the first."
    )


class NoticeView(BaseModel):
    """One mail to one owner."""

    kind: NoticeKind = Field(
        description="What it is about: the endpoint fails (`opened`), still fails, was disabled or "
        "has recovered, or the daily list of its dead letters."
    )
    email: str = Field(description="The owner's address, from `owner_emails`.")
    status: NoticeStatus = Field(
        description="`sent`: a mail server accepted it. `refused`: it rejected the address. "
        "`dropped`: the endpoint or the owner was removed before."
    )
    error: str | None = Field(description="Why it waits or failed, in the mail server's words.")
    created_at: Time
    sent_at: Time | None = Field(description="When a mail server accepted it; null: not yet.")

    @classmethod
    def of(cls, notice: Notice) -> NoticeView:
        return cls.model_validate(notice.model_dump(include=set(cls.model_fields)))


class PollingView(BaseModel):
    """The progress of the consumer that polls an endpoint."""

    acknowledged: str = Field(description="The cursor up to which everything is acknowledged.")
    acknowledged_at: Time = Field(description="When the consumer acknowledged last.")
    behind: int = Field(
        description="Events that the consumer has yet to acknowledge, counted among the tenant's "
        f"next {MAX_COUNTED:,}."
    )
    complete: bool = Field(description="False if the tenant has more events than those.")


class HealthView(BaseModel):
    """The health of an endpoint."""

    endpoint_id: str
    health: Health = Field(description="As in the endpoint itself.")
    state: str = Field(description="`enabled`, `paused` or `disabled`.")
    state_reason: str | None = Field(description="Why it is not enabled; null if it is.")
    circuit: CircuitView = Field(description="The circuit breaker, and the last outage.")
    consecutive_failures: int = Field(description="Failed attempts since the last success.")
    first_failure_at: Time | None = Field(description="The first of the consecutive failures.")
    last_failure_at: Time | None = Field(description="The newest of the consecutive failures.")
    last_success_at: Time | None = Field(
        description="The success that ended the last failures; later ones are not recorded here. "
        "Null until a success follows a failure."
    )
    last_error: str | None = Field(description="A sentence about the newest failure.")
    held: int = Field(description="Deliveries held for the endpoint.")
    dead_letters: int = Field(description="Deliveries that ended without success.")
    mail: list[NoticeView] = Field(description="Mail to its owners, newest first.")
    polling: PollingView | None = Field(description="Null if it was never polled.")


@routes.get("/endpoints/{endpoint_id}/health", summary="Get an endpoint's health")
async def get_endpoint_health(
    endpoint_id: EndpointPath, context: AppContext, principal: Reader
) -> HealthView:
    """The circuit breaker, held and failed deliveries, and mail to the owners."""
    async with context.database.read() as connection:
        endpoint = owned(await endpoints.get(connection, endpoint_id), principal)
        known = await circuits.get(connection, endpoint_id)
        counted = await waiting.read(connection, Scope(endpoint_id=endpoint_id))
        mail = await notices.list_of_endpoint(connection, endpoint_id)
        polling = await _polling(connection, endpoint)
    circuit = Circuit() if known is None else known.circuit
    return HealthView(
        endpoint_id=endpoint_id,
        health=derive_health(
            EndpointState(endpoint.state),
            circuit.state,
            consecutive_failures=circuit.consecutive_failures,
        ),
        state=endpoint.state,
        state_reason=endpoint.state_reason,
        circuit=_circuit_view(context, endpoint_id, circuit, endpoint.circuit),
        consecutive_failures=circuit.consecutive_failures,
        first_failure_at=circuit.first_failure_at,
        last_failure_at=circuit.last_failure_at,
        last_success_at=circuit.last_success_at,
        last_error=circuit.last_error,
        held=counted.by_status[DeliveryStatus.HELD],
        dead_letters=counted.dead,
        mail=[NoticeView.of(notice) for notice in mail],
        polling=polling,
    )


@routes.post("/endpoints/{endpoint_id}/pause", summary="Pause an endpoint")
async def pause_endpoint(
    endpoint_id: EndpointPath, context: AppContext, audit: Audit, principal: Writer
) -> EndpointView:
    """Holds the endpoint's deliveries, without attempts, until it is resumed."""
    endpoint, health = await _change(
        endpoint_id, "endpoint.pause", _pause, context=context, audit=audit, principal=principal
    )
    return EndpointView.of(endpoint, health=health)


@routes.post("/endpoints/{endpoint_id}/resume", summary="Resume an endpoint")
async def resume_endpoint(
    endpoint_id: EndpointPath, context: AppContext, audit: Audit, principal: Writer
) -> EndpointView:
    """Sends held deliveries, slowly at first. If the endpoint's circuit is open, probes it now with
    the oldest held delivery; if none is held, with the next delivery that falls due."""
    endpoint, health = await _change(
        endpoint_id, "endpoint.resume", _resume, context=context, audit=audit, principal=principal
    )
    return EndpointView.of(endpoint, health=health)


@routes.post("/endpoints/{endpoint_id}/enable", summary="Enable an endpoint")
async def enable_endpoint(
    endpoint_id: EndpointPath,
    context: AppContext,
    audit: Audit,
    principal: Writer,
    form: EnableForm | None = None,
) -> EnabledEndpoint:
    """Sends to the endpoint again and forgets its failures. With `redrive`, its dead letters are
    sent again too."""
    endpoint, health = await _change(
        endpoint_id,
        "endpoint.enable",
        endpoint_state.enable,
        context=context,
        audit=audit,
        principal=principal,
    )
    job = None
    if form is not None and form.redrive:
        job = await create_job(
            context,
            principal,
            audit,
            owner=endpoint.tenant_id,
            kind=JobKind.REDRIVE,
            action="resend",
            chosen=DeliverySelection(endpoint_id=endpoint_id, statuses=DEAD),
        )
    return EnabledEndpoint.of(
        endpoint, health=health, job=None if job is None else JobView.of(job, context=context)
    )


@routes.post("/endpoints/{endpoint_id}/disable", summary="Disable an endpoint")
async def disable_endpoint(
    endpoint_id: EndpointPath, context: AppContext, audit: Audit, principal: Writer
) -> EndpointView:
    """Held deliveries become dead letters, and so do events that arrive while the endpoint is
    disabled; none is dropped."""
    disable = partial(endpoint_state.disable, cause=Cause.DISABLED, reason=DISABLED_BY_REQUEST)
    endpoint, health = await _change(
        endpoint_id, "endpoint.disable", disable, context=context, audit=audit, principal=principal
    )
    return EndpointView.of(endpoint, health=health)


async def _polling(connection: AsyncConnection, endpoint: Endpoint) -> PollingView | None:
    known = await poll_positions.get(connection, endpoint.id)
    if known is None:
        return None
    behind, complete = await poll.count_behind(connection, endpoint, after=known.cursor)
    return PollingView(
        acknowledged=str(known.cursor),
        acknowledged_at=known.at,
        behind=behind,
        complete=complete,
    )


async def _pause(connection: AsyncConnection, endpoint_id: str, *, now: datetime) -> bool:
    paused = await endpoint_state.pause(connection, endpoint_id, now=now)
    if (
        not paused
        and found(await endpoints.get(connection, endpoint_id)).state == EndpointState.DISABLED
    ):
        raise Conflict(
            "The endpoint is disabled, so nothing is sent to it. Enable it first.",
            code="endpoint_disabled",
        )
    return paused


async def _resume(connection: AsyncConnection, endpoint_id: str, *, now: datetime) -> bool:
    if await endpoint_state.resume(connection, endpoint_id, now=now):
        return True
    if found(await endpoints.get(connection, endpoint_id)).state == EndpointState.DISABLED:
        raise Conflict(
            "The endpoint is disabled, not paused. Use `enable` to send to it again.",
            code="endpoint_disabled",
        )
    return await endpoint_state.probe_now(connection, endpoint_id, now=now)


async def _change(
    endpoint_id: str,
    action: AuditAction,
    change: _Change,
    *,
    context: Context,
    audit: RequestAudit,
    principal: Principal,
) -> tuple[Endpoint, Health]:
    """Apply a change in a transaction with its audit entry, and return the endpoint after it, with
    its health."""
    async with context.database.write() as connection:
        before = owned(await endpoints.get(connection, endpoint_id, lock=True), principal)
        changed = await change(connection, endpoint_id, now=context.clock())
        endpoint = found(await endpoints.get(connection, endpoint_id))
        if changed:
            entry = done(action, endpoint, before=facts(before), after=facts(endpoint))
            await audit.record(connection, entry)
        health = await derived_health.read_one(connection, endpoint)
    context.workflow_starter.wake()
    context.doorbell.ring()
    return endpoint, health


def _circuit_view(
    context: Context, endpoint_id: str, circuit: Circuit, overrides: dict[str, object]
) -> CircuitView:
    waiting = circuit.state in (State.OPEN, State.HALF_OPEN)
    since = circuit.first_failure_at if waiting else None
    policy = context.settings.circuit_policy.with_overrides(overrides)
    return CircuitView(
        state=circuit.state,
        episode=circuit.episode,
        cause=circuit.cause,
        opened_at=circuit.opened_at,
        probes=circuit.probes,
        next_probe_at=circuit.next_probe_at if waiting else None,
        drain_rate_per_second=circuit.drain_rate,
        drained=circuit.drained,
        disable_at=None if since is None else since + policy.disable_after,
        workflow=workflow_view(context, workflow_id(endpoint_id)) if circuit.episode else None,
    )

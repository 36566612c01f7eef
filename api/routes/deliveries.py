"""Deliveries: lookups, and actions on one delivery or many."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Literal, Self

from fastapi import Query, Response
from pydantic import BaseModel, Field
from sqlalchemy.ext.asyncio import AsyncConnection

from api.access.audit import Audit, RequestAudit
from api.access.authentication import Principal, Reader, Writer
from api.access.ownership import owned
from api.context.context import AppContext, Context
from api.forms import jobs
from api.forms.delivery_filter import STATUSES, DeliveryChoiceForm, FilteredJobOptions
from api.forms.jobs import AUDIT_ACTIONS, JOB_ROUTE, JobView
from api.http.fields import (
    AnswerQuery,
    DeliveryPath,
    EndpointFilter,
    EventFilter,
    EventTypeFilter,
    Since,
    SubscriptionFilter,
    TenantFilter,
    Time,
    Until,
    example,
)
from api.http.pagination import Listing, Page, PageQuery
from api.http.routing import router
from api.http.workflow_link import WorkflowView, workflow_view
from hookfast.audit import Change
from hookfast.deliveries import batch_messages
from hookfast.deliveries.answer import parse_answer
from hookfast.deliveries.evidence import header_pairs
from hookfast.deliveries.facts import Attempt as PlannedAttempt
from hookfast.deliveries.job import JobKind
from hookfast.deliveries.lane import Place, ordering_key_of
from hookfast.deliveries.life import next_step
from hookfast.deliveries.messages import workflow_id
from hookfast.deliveries.outcome import ERROR_TEXT, DeliveryStatus, Result
from hookfast.events.event_type import parse_event_type
from hookfast.resources.subscription import PayloadStyle
from hookfast.storage.circuits.circuits import gates
from hookfast.storage.deliveries import actions, attempts, deliveries
from hookfast.storage.deliveries.actions import UserAction
from hookfast.storage.deliveries.deliveries import DeliveryFilter
from hookfast.storage.deliveries.outgoing import FRESH_SECONDS
from hookfast.storage.events import lanes
from hookfast.storage.tables import Attempt, Delivery

routes = router("Deliveries")

_MOST_COUNTED = 100


class LastAnswerView(BaseModel):
    """The answer to a delivery's newest recorded attempt."""

    result: Result
    status_code: int | None = Field(description="Null if there was no complete response.")
    duration_ms: float
    attempt_at: Time = Field(description="When the attempt began.")


class DeliveryView(BaseModel):
    """One event on its way to one subscription. Its id is the message id the receiver sees."""

    id: str = Field(
        description="Id of the delivery, `dlv_…`: the `X-Hook-Id` of all its requests, by which "
        "receivers recognise repetitions."
    )
    event_id: str
    event_type: str
    subscription_id: str
    endpoint_id: str
    tenant_id: str
    payload: PayloadStyle
    status: DeliveryStatus = Field(description=STATUSES)
    reason: str | None = Field(description="Why it ended or waits; null if there is no problem.")
    last_answer: LastAnswerView | None = Field(
        description="The answer to the newest recorded attempt; null before the first."
    )
    attempt_count: int = Field(description="Requests made so far, including resends.")
    retry_count: int = Field(description="Retries of the retry plan made so far.")
    next_attempt_at: Time | None = Field(
        description="When the next attempt is due; null if none is planned."
    )
    deliver_at: Time | None
    place: Place | None = Field(
        description="Where deliveries are ordered: `queued` behind others with its ordering key, "
        "at the `head` of these, or it has `left` them. Null if it is sent in any order. A dead "
        "letter at the head holds up those behind it until it is resent or cancelled."
    )
    ordering_key: str | None
    waits_behind: str | None = Field(
        description="If it is `queued`: the delivery that must be done before those behind it. "
        "Null at the moment when another moves up."
    )
    created_at: Time
    updated_at: Time
    finished_at: Time | None

    @classmethod
    def of(cls, delivery: Delivery, *, heads: Mapping[str, str], **more: object) -> Self:
        """Return the view of a delivery. `heads` has the head of its lane if it is queued."""
        members = delivery.model_dump()
        lane = delivery.lane or ""
        members["ordering_key"] = ordering_key_of(lane)
        queued = delivery.place == Place.QUEUED
        members["waits_behind"] = heads.get(lane) if queued else None
        if delivery.status == DeliveryStatus.HELD:  # the row has the time of its next check
            members["next_attempt_at"] = None
        members["last_answer"] = delivery.last_result and LastAnswerView(
            result=delivery.last_result,
            status_code=delivery.last_status_code,
            duration_ms=delivery.last_duration_ms,
            attempt_at=delivery.last_attempt_at,
        )
        return cls(**members | more, attempt_count=delivery.attempts, retry_count=delivery.retries)


_LOST = "Null also if the attempt could be recorded only later, by its workflow."
_SHORTENED = "A long value ends in `…`; a pair named `…` says how many more there were."


class AttemptMembers(BaseModel):
    """The members of an attempt that lists show too."""

    id: str = Field(description="Id of the attempt, `att_…`.")
    number: int = Field(description="1 for the first.")
    trigger: Literal["first", "retry", "resend", "probe"] = Field(
        description="Why it was made: `retry` by the retry plan, `resend` by request, `probe` to "
        "find out whether a failing endpoint is back."
    )
    started_at: Time = Field(description="When the request began.")
    duration_ms: float
    result: Result
    status_code: int | None
    error: str | None = Field(description=ERROR_TEXT)


class AttemptView(AttemptMembers):
    """One request and its result."""

    response_excerpt: str | None = Field(description="The start of the response, as text.")
    url: str | None = Field(description="Where the request was sent. " + _LOST)
    request_headers: list[tuple[str, str]] | None = Field(
        description="The headers as sent, as pairs; signatures, credentials and the endpoint's own "
        f"headers are masked. Null if nothing was sent. {_SHORTENED} {_LOST}"
    )
    response_headers: list[tuple[str, str]] | None = Field(
        description="The headers of the response, as pairs; cookies are masked. Null without a "
        f"complete response. {_SHORTENED} {_LOST}"
    )

    @classmethod
    def of(cls, attempt: Attempt) -> Self:
        headers = {
            "request_headers": header_pairs(attempt.request_headers),
            "response_headers": header_pairs(attempt.response_headers),
        }
        return cls(**attempt.model_dump() | headers)


class DeliveryDetail(DeliveryView):
    """A delivery with its attempts."""

    attempts: list[AttemptView] = Field(
        description=f"Oldest first; if there are more than {attempts.MAX_SHOWN}, the newest."
    )
    workflow: WorkflowView = Field(
        description="The delivery's workflow in Temporal: its own, or the batch's if the first "
        "attempt was made in a batch and delivered it."
    )
    batch: WorkflowView | None = Field(
        description="The batch that made its first attempt; null if none did."
    )
    waiting_behind: int = Field(
        description=f"Deliveries that are queued behind it, counted up to {_MOST_COUNTED}, if it "
        "is the head of its lane."
    )


async def delivery_listing(
    connection: AsyncConnection, page: Page, rows: Sequence[Delivery]
) -> Listing[DeliveryView]:
    """Return the page of these rows."""
    heads = await _heads(connection, rows)
    return page.listing(rows, lambda delivery: DeliveryView.of(delivery, heads=heads))


async def _heads(connection: AsyncConnection, rows: Iterable[Delivery]) -> dict[str, str]:
    """Return the heads of the lanes in which some of these deliveries are queued."""
    lane_ids = {row.lane for row in rows if row.lane is not None and row.place == Place.QUEUED}
    return await lanes.heads(connection, lane_ids)


class AcceptedAction(BaseModel):
    """The action is stored; the delivery applies it at once, and its status follows."""

    id: str = Field(description="Id of the delivery, `dlv_…`.")
    action: UserAction = Field(description="The action that was requested.")


class DeliveryActionForm(FilteredJobOptions):
    """An action, and the deliveries to act on."""

    model_config = example(
        action="resend",
        filter={"status": ["dead", "gone"], "event_type": "order.invoice.paid"},
        dry_run=True,
    )

    action: UserAction = Field(description="What to do with each of the deliveries.")
    filter: DeliveryChoiceForm = Field(
        default_factory=DeliveryChoiceForm, description="Which deliveries; see `all` for all."
    )


@routes.get("/deliveries", summary="List deliveries")
async def list_deliveries(
    page: PageQuery,
    context: AppContext,
    principal: Reader,
    status: Annotated[
        DeliveryStatus | None, Query(description="Only deliveries with this status.")
    ] = None,
    endpoint_id: EndpointFilter = None,
    subscription_id: SubscriptionFilter = None,
    event_id: EventFilter = None,
    event_type: EventTypeFilter = None,
    answer: AnswerQuery = None,
    tenant_id: TenantFilter = None,
    since: Since = None,
    until: Until = None,
) -> Listing[DeliveryView]:
    """All given filters must match. `answer` is the answer to the newest attempt."""
    chosen = DeliveryFilter(
        status=status,
        endpoint_id=endpoint_id,
        subscription_id=subscription_id,
        event_id=event_id,
        event_type=None
        if event_type is None
        else parse_event_type(event_type, pointer="event_type"),
        answer=None if answer is None else parse_answer(answer, pointer="answer"),
        tenant_id=principal.tenant_for(tenant_id),
        since=since,
        until=until,
    )
    async with context.database.read() as connection:
        rows = await deliveries.list_page(connection, chosen, after=page.after, limit=page.rows)
        return await delivery_listing(connection, page, rows)


@routes.get("/deliveries/{delivery_id}", summary="Get a delivery with its attempts")
async def get_delivery(
    delivery_id: DeliveryPath, context: AppContext, principal: Reader
) -> DeliveryDetail:
    async with context.database.read() as connection:
        delivery = owned(await deliveries.get(connection, delivery_id), principal)
        made = await attempts.list_newest(connection, delivery_id)
        heads = await _heads(connection, [delivery])
        waiting = 0
        if delivery.lane is not None and delivery.place == Place.HEAD:
            waiting = await lanes.count_queued(connection, delivery.lane, most=_MOST_COUNTED)
    return DeliveryDetail.of(
        delivery,
        heads=heads,
        waiting_behind=waiting,
        attempts=[AttemptView.of(attempt) for attempt in made],
        workflow=workflow_view(context, _workflow_id(delivery), closed_at=delivery.finished_at),
        batch=None
        if delivery.batch_id is None
        else workflow_view(
            context,
            batch_messages.workflow_id(delivery.batch_id),
            closed_at=made[0].started_at if made and made[0].number == 1 else None,
        ),
    )


def _workflow_id(delivery: Delivery) -> str:
    """Return the id of the batch's workflow, until the delivery has requested its own."""
    if delivery.batch_id is not None and delivery.wake_count == 0:
        return batch_messages.workflow_id(delivery.batch_id)
    return workflow_id(delivery.id)


@routes.post("/deliveries/{delivery_id}/pause", status_code=202, summary="Pause a delivery")
async def pause_delivery(
    delivery_id: DeliveryPath, context: AppContext, audit: Audit, principal: Writer
) -> AcceptedAction:
    """Makes no attempts until it is resumed; the pause does not use up its retry plan."""
    return await _act(delivery_id, "pause", context=context, audit=audit, principal=principal)


@routes.post("/deliveries/{delivery_id}/resume", status_code=202, summary="Resume a delivery")
async def resume_delivery(
    delivery_id: DeliveryPath, context: AppContext, audit: Audit, principal: Writer
) -> AcceptedAction:
    """Continues where it was paused: at once, if an attempt fell due meanwhile."""
    return await _act(delivery_id, "resume", context=context, audit=audit, principal=principal)


@routes.post("/deliveries/{delivery_id}/resend", status_code=202, summary="Send a delivery now")
async def resend_delivery(
    delivery_id: DeliveryPath, context: AppContext, audit: Audit, principal: Writer
) -> AcceptedAction:
    """Makes one attempt now, even if the delivery is paused or finished. If it fails, the retry
    plan continues unchanged. Responds with 409 if the endpoint is disabled or deleted."""
    return await _act(delivery_id, "resend", context=context, audit=audit, principal=principal)


@routes.post("/deliveries/{delivery_id}/cancel", status_code=202, summary="Cancel a delivery")
async def cancel_delivery(
    delivery_id: DeliveryPath, context: AppContext, audit: Audit, principal: Writer
) -> AcceptedAction:
    """Ends the delivery without another attempt. Where deliveries are ordered, a dead letter that
    holds up those behind it can be cancelled too, which lets them go on."""
    return await _act(delivery_id, "cancel", context=context, audit=audit, principal=principal)


@routes.post(
    "/deliveries/actions", summary="Pause, resume, resend or cancel many deliveries", **JOB_ROUTE
)
async def act_on_deliveries(
    form: DeliveryActionForm, context: AppContext, audit: Audit, principal: Writer
) -> JobView | Response:
    """A job acts on the deliveries that match the filter now, oldest first, at its rate; a dry run
    only counts them. Resends by a job wait for endpoints whose circuit is open."""
    form.check(form.filter)
    return await jobs.create_or_count(
        context,
        principal,
        audit,
        kind=JobKind.ACTION,
        action=form.action,
        chosen=form.filter.selection_for(form.action),
        options=form,
    )


async def _act(
    delivery_id: str,
    action: UserAction,
    *,
    context: Context,
    audit: RequestAudit,
    principal: Principal,
) -> AcceptedAction:
    async with context.database.write() as connection:
        delivery = owned(await deliveries.get(connection, delivery_id), principal)
        change = await actions.request(connection, delivery_id, action, now=context.clock())
        seen = await gates(connection, [delivery.endpoint_id])
        entry = Change(
            action=AUDIT_ACTIONS[action],
            resource="delivery",
            resource_id=delivery_id,
            tenant_id=delivery.tenant_id,
        )
        await audit.record(connection, entry)
    context.doorbell.ring()
    probe = seen[delivery.endpoint_id].gate.probes(delivery_id)
    # a worker's clock may be ahead
    soon = context.clock() + timedelta(seconds=1)
    step = next_step(change.before, soon, probe=probe, in_batch=True)
    if action in ("pause", "cancel") and isinstance(step, PlannedAttempt):
        # A worker that read the delivery before the commit may still start its request within this
        # time. None starts after the response.
        await asyncio.sleep(FRESH_SECONDS)
    return AcceptedAction(id=delivery_id, action=action)

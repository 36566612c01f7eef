"""Deliveries: lookups, and actions on one delivery or many."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Final, Literal, Self

from fastapi import Query, Response
from pydantic import BaseModel, Field
from sqlalchemy.ext.asyncio import AsyncConnection

from api.access.audit import Audit, RequestAudit
from api.access.authentication import Principal, Reader, Writer
from api.access.ownership import owned
from api.context.context import AppContext, Context
from api.forms import jobs
from api.forms.delivery_filter import STATUSES, DeliveryChoiceForm, FilteredJobOptions
from api.forms.jobs import JOB_ROUTE, JobView
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
from hookfast.audit import AuditedChange
from hookfast.deliveries import batch_messages
from hookfast.deliveries.actions import ACTIONS, ActionSpec, UserAction, names
from hookfast.deliveries.answer import parse_answer
from hookfast.deliveries.evidence import header_pairs
from hookfast.deliveries.facts import AttemptPlan
from hookfast.deliveries.job import JobKind
from hookfast.deliveries.lane import Place, ordering_key_of
from hookfast.deliveries.life import next_step
from hookfast.deliveries.messages import workflow_id
from hookfast.deliveries.outcome import ERROR_TEXT, DeliveryStatus, Reason, Result
from hookfast.deliveries.wording import REASON_LIST
from hookfast.endpoints.gate import hold_reason
from hookfast.events.event_type import parse_event_type
from hookfast.resources.subscription import PayloadStyle
from hookfast.storage.circuits.circuits import EndpointGate, gates
from hookfast.storage.deliveries import actions, attempts, deliveries
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


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What views of deliveries show besides their rows: the heads of the lanes in which some are
    queued, and the gates of the endpoints for which some are held."""

    heads: Mapping[str, str]
    gates: Mapping[str, EndpointGate]

    def hold_of(self, delivery: Delivery) -> dict[str, Any]:
        """Return the members of a held delivery that depend on what holds it now: its circuit may
        have moved on since the row was written. A resend of a person is attempted although the
        delivery is held, so only that is a next attempt."""
        resend_at = delivery.resend_not_before or delivery.resend_asked_at
        members = {
            "next_attempt_at": None if delivery.resend_yields else resend_at,
            "next_check_at": delivery.recheck_at,
        }
        if (current := self.gates.get(delivery.endpoint_id)) is None:
            return members
        reason = hold_reason(current.gate) or delivery.reason
        probe = current.next_probe_at
        if reason == Reason.CIRCUIT_OPEN and probe is not None:
            members["next_check_at"] = min(probe, delivery.recheck_at or probe)
        return members | {"reason": reason}


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
    reason: str | None = Field(
        description="Why it waits or ended; null if there is no problem. While it is `held`, this "
        f"is what holds it at the moment. {REASON_LIST}."
    )
    held_since: Time | None = Field(
        description="Since when it has been held, paused or waiting for its endpoint's limits, one "
        "after the other; null otherwise. That time uses up none of its retry plan."
    )
    next_check_at: Time | None = Field(
        description="If it is `held`: when Hookfast checks next whether it may be sent, by a probe "
        "of its endpoint or by itself, if nothing releases it before; null otherwise."
    )
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
    def of(cls, delivery: Delivery, *, around: Surroundings, **more: object) -> Self:
        """Return the view of a delivery, with what is known of its endpoint and its lane."""
        members = delivery.model_dump()
        lane = delivery.lane or ""
        members["ordering_key"] = ordering_key_of(lane)
        queued = delivery.place == Place.QUEUED
        members["waits_behind"] = around.heads.get(lane) if queued else None
        members |= {"held_since": delivery.waiting_since, "next_check_at": None}
        if delivery.status == DeliveryStatus.HELD:
            members |= around.hold_of(delivery)
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
    around = await _surroundings(connection, rows)
    return page.listing(rows, lambda delivery: DeliveryView.of(delivery, around=around))


async def _surroundings(connection: AsyncConnection, rows: Sequence[Delivery]) -> Surroundings:
    lane_ids = {row.lane for row in rows if row.lane is not None and row.place == Place.QUEUED}
    holding = {row.endpoint_id for row in rows if row.status == DeliveryStatus.HELD}
    return Surroundings(
        heads=await lanes.heads(connection, lane_ids),
        gates=await gates(connection, holding) if holding else {},
    )


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
        around = await _surroundings(connection, [delivery])
        waiting = 0
        if delivery.lane is not None and delivery.place == Place.HEAD:
            waiting = await lanes.count_queued(connection, delivery.lane, most=_MOST_COUNTED)
    return DeliveryDetail.of(
        delivery,
        around=around,
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


def _add_action(action: ActionSpec) -> Callable[..., Any]:
    """Add the route that requests an action on one delivery."""

    async def act(
        delivery_id: DeliveryPath, context: AppContext, audit: Audit, principal: Writer
    ) -> AcceptedAction:
        return await _act(delivery_id, action, context=context, audit=audit, principal=principal)

    act.__name__ = f"{action.name}_delivery"
    return routes.post(
        f"/deliveries/{{delivery_id}}/{action.name}",
        status_code=202,
        summary=action.title,
        description=f"{action.effect} {action.api_note}".rstrip(),
    )(act)


ACTION_ROUTES: Final = {name: _add_action(action) for name, action in ACTIONS.items()}
"""The function of the route of each action, for pages that offer it."""


@routes.post("/deliveries/actions", summary=f"{names().capitalize()} many deliveries", **JOB_ROUTE)
async def act_on_deliveries(
    form: DeliveryActionForm, context: AppContext, audit: Audit, principal: Writer
) -> JobView | Response:
    """A job acts on the deliveries that match the filter now, oldest first, at its rate; a dry run
    only counts them. Resends by a job wait for endpoints whose circuit holds deliveries."""
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
    action: ActionSpec,
    *,
    context: Context,
    audit: RequestAudit,
    principal: Principal,
) -> AcceptedAction:
    async with context.database.write() as connection:
        delivery = owned(await deliveries.get(connection, delivery_id), principal)
        change = await actions.request(connection, delivery_id, action.name, now=context.clock())
        seen = await gates(connection, [delivery.endpoint_id])
        entry = AuditedChange(
            action=action.audit,
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
    if action.stops and isinstance(step, AttemptPlan):
        # A worker that read the delivery before the commit may still start its request within this
        # time. None starts after the response.
        await asyncio.sleep(FRESH_SECONDS)
    return AcceptedAction(id=delivery_id, action=action.name)

"""Deliveries: one event on its way to one subscription; looked up, and steered by hand."""

from __future__ import annotations

from typing import Annotated, Literal, Self
from urllib.parse import quote

from fastapi import Query
from pydantic import BaseModel, Field

from api.authentication import Principal, Reader, Writer
from api.context import AppContext, Context
from api.fields import (
    DeliveryPath,
    EndpointId,
    EventId,
    SubscriptionId,
    TenantId,
    Time,
    TimeInput,
)
from api.ownership import owned
from api.pagination import Listing, PageQuery
from api.routing import router
from api.steering import Action
from hookfast.delivery import workflow_id
from hookfast.event_type import parse_event_type
from hookfast.outcome import DeliveryStatus, Result
from hookfast.storage import attempts, deliveries
from hookfast.storage.deliveries import DeliveryFilter
from hookfast.storage.tables import Attempt, Delivery

routes = router("Deliveries")


class DeliveryView(BaseModel):
    """One event on its way to one subscription. Its id is the message id the receiver sees."""

    id: str
    event_id: str
    event_type: str
    subscription_id: str
    endpoint_id: str
    tenant_id: str
    payload: Literal["full", "thin"]
    status: DeliveryStatus
    reason: str | None = Field(description="Why it ended, or waits; null while all is well.")
    attempt_count: int = Field(description="Requests made so far, resends included.")
    retry_count: int = Field(description="Retries of the retry plan made so far.")
    next_attempt_at: Time | None = Field(description="When it goes next; null when it does not.")
    deliver_at: Time | None
    created_at: Time
    updated_at: Time
    finished_at: Time | None

    @classmethod
    def of(cls, delivery: Delivery, **more: object) -> Self:
        members = delivery.model_dump()
        return cls(**members | more, attempt_count=delivery.attempts, retry_count=delivery.retries)


class AttemptView(BaseModel):
    """One request, and what came of it."""

    id: str
    number: int = Field(description="1 for the first.")
    trigger: Literal["first", "retry", "resend"]
    started_at: Time
    duration_ms: float
    result: Result
    status_code: int | None
    error: str | None = Field(description="What went wrong, in a sentence; null on success.")
    response_excerpt: str | None = Field(description="The start of the receiver's answer, as text.")

    @classmethod
    def of(cls, attempt: Attempt) -> Self:
        return cls(**attempt.model_dump())


class WorkflowView(BaseModel):
    """The Temporal workflow that is the delivery."""

    id: str
    url: str | None = Field(description="Where to see it in the Temporal UI, where that is known.")


class DeliveryDetail(DeliveryView):
    """A delivery with everything that was tried."""

    attempts: list[AttemptView] = Field(
        description=f"Oldest first; of more than {attempts.MAX_SHOWN}, the newest."
    )
    workflow: WorkflowView


class SteeredDelivery(BaseModel):
    """The wish is stored; the delivery acts on it at once, and its status follows."""

    id: str
    action: Action


@routes.get("/deliveries", summary="List deliveries")
async def list_deliveries(
    page: PageQuery,
    context: AppContext,
    principal: Reader,
    status: DeliveryStatus | None = None,
    endpoint_id: EndpointId | None = None,
    subscription_id: SubscriptionId | None = None,
    event_id: EventId | None = None,
    event_type: Annotated[
        str | None, Query(max_length=200, examples=["order.invoice.paid"])
    ] = None,
    tenant_id: TenantId | None = None,
    since: Annotated[TimeInput | None, Query(description="Created then or later.")] = None,
    until: Annotated[TimeInput | None, Query(description="Created before then.")] = None,
) -> Listing[DeliveryView]:
    """Filters add up."""
    chosen = DeliveryFilter(
        status=status,
        endpoint_id=endpoint_id,
        subscription_id=subscription_id,
        event_id=event_id,
        event_type=None
        if event_type is None
        else parse_event_type(event_type, pointer="event_type"),
        tenant_id=principal.tenant_for(tenant_id),
        since=since,
        until=until,
    )
    async with context.database.read() as connection:
        rows = await deliveries.list_page(connection, chosen, after=page.after, limit=page.rows)
    return page.answer(rows, key=lambda delivery: delivery.id, view=DeliveryView.of)


@routes.get("/deliveries/{delivery_id}", summary="Get a delivery with its attempts")
async def get_delivery(
    delivery_id: DeliveryPath, context: AppContext, principal: Reader
) -> DeliveryDetail:
    async with context.database.read() as connection:
        delivery = owned(await deliveries.get(connection, delivery_id), principal)
        made = await attempts.list_newest(connection, delivery_id)
    return DeliveryDetail.of(
        delivery,
        attempts=[AttemptView.of(attempt) for attempt in made],
        workflow=_workflow(context, delivery_id),
    )


@routes.post("/deliveries/{delivery_id}/pause", status_code=202, summary="Pause a delivery")
async def pause_delivery(
    delivery_id: DeliveryPath, context: AppContext, principal: Writer
) -> SteeredDelivery:
    """No attempts until it is resumed; the pause does not use up its retry plan."""
    return await _steer(delivery_id, "pause", context=context, principal=principal)


@routes.post("/deliveries/{delivery_id}/resume", status_code=202, summary="Resume a delivery")
async def resume_delivery(
    delivery_id: DeliveryPath, context: AppContext, principal: Writer
) -> SteeredDelivery:
    """It goes on where it was paused: at once, if an attempt fell due meanwhile."""
    return await _steer(delivery_id, "resume", context=context, principal=principal)


@routes.post("/deliveries/{delivery_id}/resend", status_code=202, summary="Send a delivery now")
async def resend_delivery(
    delivery_id: DeliveryPath, context: AppContext, principal: Writer
) -> SteeredDelivery:
    """One attempt now, also of a paused or finished delivery. If it fails, the retry plan goes on
    as if nothing had happened."""
    return await _steer(delivery_id, "resend", context=context, principal=principal)


@routes.post("/deliveries/{delivery_id}/cancel", status_code=202, summary="Cancel a delivery")
async def cancel_delivery(
    delivery_id: DeliveryPath, context: AppContext, principal: Writer
) -> SteeredDelivery:
    """It ends without another attempt."""
    return await _steer(delivery_id, "cancel", context=context, principal=principal)


async def _steer(
    delivery_id: str, action: Action, *, context: Context, principal: Principal
) -> SteeredDelivery:
    async with context.database.read() as connection:
        owned(await deliveries.get(connection, delivery_id), principal)
    await context.steering.signal(delivery_id, action)
    return SteeredDelivery(id=delivery_id, action=action)


def _workflow(context: Context, delivery_id: str) -> WorkflowView:
    workflow, ui = workflow_id(delivery_id), context.settings.temporal_ui_url
    if ui is None:
        return WorkflowView(id=workflow, url=None)
    namespace = quote(context.temporal.namespace, safe="")
    path = f"namespaces/{namespace}/workflows/{quote(workflow, safe='')}"
    return WorkflowView(id=workflow, url=f"{ui.rstrip('/')}/{path}")

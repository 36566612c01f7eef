"""How a delivery's workflow is started: the same whether the relay or a person's signal does it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from temporalio.common import SearchAttributePair, TypedSearchAttributes

from hookfast import temporal
from hookfast.delivery import DeliveryOrder, Progress
from hookfast.outcome import DeliveryStatus
from hookfast.retry_plan import PlanSpec, parse_plan
from hookfast.storage.outbox import PendingDelivery

RPC_TIMEOUT = timedelta(seconds=5)
"""How long a call to Temporal may take when a person or another row waits behind it."""
_SUMMARY_URL_LENGTH = 120


@dataclass(frozen=True, slots=True)
class Route:
    """Where a delivery goes, as far as its workflow has to know."""

    url: str
    plan: PlanSpec
    timeout_seconds: float


def delivery_order(
    row: PendingDelivery, route: Route, *, fast_lane_timeout: timedelta
) -> DeliveryOrder:
    """The workflow's input. The plan is part of it: a delivery keeps the plan it started with."""
    return DeliveryOrder(
        delivery_id=row.delivery_id,
        endpoint_id=row.endpoint_id,
        plan=route.plan,
        timeout_seconds=route.timeout_seconds,
        deliver_at=row.deliver_at,
        fast_lane=route.timeout_seconds <= fast_lane_timeout.total_seconds(),
        progress=_progress(row, route.plan),
    )


def _progress(row: PendingDelivery, plan: PlanSpec) -> Progress:
    status = DeliveryStatus(row.status)
    if row.attempts == 0:
        return Progress(status=status, paused=status is DeliveryStatus.PAUSED)
    if status.finished:  # sent again from the start of its plan
        return Progress(attempts=row.attempts, status=status)
    # Its workflow was lost in the middle of the plan, which began its delays ago.
    due_at = row.next_attempt_at
    waited = sum(parse_plan(plan).delays[: row.retries + 1])
    return Progress(
        attempts=row.attempts,
        retries=row.retries,
        first_attempt_at=None if due_at is None else due_at - timedelta(seconds=waited),
        # Held: then that is when it looks by itself, and whoever starts it lets it go before.
        due_at=None if status is DeliveryStatus.HELD else due_at,
        paused=status is DeliveryStatus.PAUSED,
        status=status,
    )


def search_attributes(row: PendingDelivery) -> TypedSearchAttributes:
    """What the Temporal UI can filter deliveries by."""
    return TypedSearchAttributes(
        [
            SearchAttributePair(temporal.HOOK_TENANT, row.tenant_id),
            SearchAttributePair(temporal.HOOK_ENDPOINT, row.endpoint_id),
            SearchAttributePair(temporal.HOOK_EVENT_TYPE, row.event_type),
            SearchAttributePair(temporal.HOOK_STATE, row.status),
        ]
    )


def summary(row: PendingDelivery, route: Route) -> str:
    """The line the Temporal UI shows, `order.invoice.paid → https://…`, without the URL's query:
    people put tokens there."""
    url = route.url.partition("?")[0][:_SUMMARY_URL_LENGTH]
    return f"{row.event_type} → {url}"

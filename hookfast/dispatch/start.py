"""How a delivery's workflow is started, or woken where it runs."""

from __future__ import annotations

from datetime import timedelta

from temporalio.client import Client
from temporalio.common import (
    Priority,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)

from hookfast.deliveries import batch_messages
from hookfast.deliveries.messages import (
    DELIVERIES_QUEUE,
    WAKE,
    WORKFLOW_TYPE,
    DeliveryInput,
    Labels,
    StepResult,
    workflow_id,
)
from hookfast.storage.deliveries.outbox import PendingDelivery
from hookfast.storage.endpoints.endpoint_cache import CachedEndpoint
from hookfast.temporal import connection

RPC_TIMEOUT = timedelta(seconds=5)
"""How long a call to Temporal may take when a person or another row waits behind it."""
START_TIMEOUT = timedelta(seconds=10)
_SUMMARY_URL_LENGTH = 120


async def start_or_wake(
    client: Client, row: PendingDelivery, target: CachedEndpoint, *, fast_lane_timeout: timedelta
) -> None:
    """Start the workflow of a row that has none yet, or signal the one of a row that was put back:
    where it has ended or was lost, it starts again from the row. Raises Temporal's errors;
    WorkflowAlreadyStartedError where a first start finds that it has run."""
    first = not row.has_workflow
    at_once = row.new and row.deliver_at is None
    fast_lane = row.new and target.timeout_seconds <= fast_lane_timeout.total_seconds()
    await client.start_workflow(
        WORKFLOW_TYPE,
        _order(row, target, fast_lane=fast_lane, labelled=not at_once),
        id=workflow_id(row.delivery_id),
        task_queue=DELIVERIES_QUEUE,
        # A second start of a delivery that runs or has run changes nothing.
        id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE
        if first
        else WorkflowIDReusePolicy.ALLOW_DUPLICATE,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING
        if first
        else WorkflowIDConflictPolicy.UNSPECIFIED,
        request_eager_start=first,
        start_signal=None if first else WAKE,
        start_signal_args=[] if first else [row.urgency],
        # Most deliveries end at their first attempt: those without cost Temporal a fifth less.
        search_attributes=None if at_once else _search_attributes(row),
        static_summary=_summary(row, target),
        static_details=_details(row),
        priority=Priority(priority_key=row.urgency, fairness_key=row.endpoint_id),
        rpc_timeout=START_TIMEOUT,
    )


def _order(
    row: PendingDelivery, target: CachedEndpoint, *, fast_lane: bool, labelled: bool
) -> DeliveryInput:
    life = row.life
    waits = row.new and row.deliver_at is not None
    next_at = row.deliver_at if waits else None
    if not row.new and not row.has_workflow:
        next_at = life.next_attempt_at  # its batch left it so
    return DeliveryInput(
        delivery_id=row.delivery_id,
        endpoint_id=row.endpoint_id,
        plan=target.plan,
        fast_lane=fast_lane,
        now=StepResult(
            status=life.status,
            attempts=life.attempts,
            retries=life.retries,
            next_at=next_at,
            waits_for="first attempt, as scheduled" if waits else "",
            last_error=life.last_error,
        ),
        labels=None if labelled else Labels(row.tenant_id, row.event_type),
    )


def _details(row: PendingDelivery) -> str | None:
    """Name the batch that made the first attempt, for the Temporal UI."""
    if row.new or row.batch_id is None:
        return None
    return f"Began in `{batch_messages.workflow_id(row.batch_id)}`."


def _search_attributes(row: PendingDelivery) -> TypedSearchAttributes:
    """What the Temporal UI can filter deliveries by."""
    return TypedSearchAttributes(
        [
            SearchAttributePair(connection.HOOK_TENANT, row.tenant_id),
            SearchAttributePair(connection.HOOK_ENDPOINT, row.endpoint_id),
            SearchAttributePair(connection.HOOK_EVENT_TYPE, row.event_type),
            SearchAttributePair(connection.HOOK_STATE, row.life.status.value),
        ]
    )


def _summary(row: PendingDelivery, target: CachedEndpoint) -> str:
    """The line the Temporal UI shows, `order.invoice.paid → https://…`, without the URL's query:
    people put tokens there."""
    url = target.url.partition("?")[0][:_SUMMARY_URL_LENGTH]
    return f"{row.event_type} → {url}"

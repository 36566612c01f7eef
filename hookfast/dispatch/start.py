"""Start the workflow of a delivery, or wake it if it runs; start a batch of first attempts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from temporalio.client import Client, WorkflowHandle
from temporalio.common import (
    Priority,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.exceptions import WorkflowAlreadyStartedError

from hookfast.deliveries import batch_messages, search_attributes
from hookfast.deliveries.batch_messages import BatchResult
from hookfast.deliveries.messages import (
    DELIVERIES_QUEUE,
    WAKE,
    WORKFLOW_TYPE,
    DeliveryInput,
    Labels,
    StepResult,
    Urgency,
    workflow_id,
)
from hookfast.deliveries.time_budget import is_for_fast_lane
from hookfast.endpoints.short_url import short_url
from hookfast.storage.deliveries.outbox import PendingDelivery
from hookfast.storage.endpoints.endpoint_cache import CachedEndpoint

RPC_TIMEOUT = timedelta(seconds=5)
"""Timeout of a call to Temporal while a person or another row waits for it."""
START_TIMEOUT = timedelta(seconds=10)
_SUMMARY_URL_LENGTH = 120
_EAGER = "__temporal_eagerly_started"
"""Temporal's SDK says by this whether the answer to a start contained the first workflow task."""


async def start_or_wake(
    client: Client, row: PendingDelivery, endpoint: CachedEndpoint, *, fast_lane_timeout: timedelta
) -> bool:
    """Start the workflow of a delivery, or signal it if the row has a workflow already. A workflow
    that has ended or was lost starts again from the row. Return whether its first step begins in
    this process at once. Raises Temporal's errors, and WorkflowAlreadyStartedError if a first start
    finds that the workflow has run."""
    if not row.has_workflow:
        try:
            return await _start(
                client, row, endpoint, first=True, fast_lane_timeout=fast_lane_timeout
            )
        except WorkflowAlreadyStartedError:
            if row.new:
                raise
            # A relay that got no answer had started it, before a batch took the delivery; it has
            # ended, and the row changed since.
    return await _start(client, row, endpoint, first=False, fast_lane_timeout=fast_lane_timeout)


async def _start(
    client: Client,
    row: PendingDelivery,
    endpoint: CachedEndpoint,
    *,
    first: bool,
    fast_lane_timeout: timedelta,
) -> bool:
    at_once = row.new and row.deliver_at is None
    fast_lane = is_for_fast_lane(
        endpoint.timeout_seconds, row.last_duration_ms, longest=fast_lane_timeout
    )
    handle = await client.start_workflow(
        WORKFLOW_TYPE,
        _input(row, endpoint, fast_lane=fast_lane, labelled=not at_once),
        id=workflow_id(row.delivery_id),
        task_queue=DELIVERIES_QUEUE,
        # Starting a delivery that runs or has run a second time changes nothing.
        id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE
        if first
        else WorkflowIDReusePolicy.ALLOW_DUPLICATE,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING
        if first
        else WorkflowIDConflictPolicy.UNSPECIFIED,
        request_eager_start=first,
        start_signal=None if first else WAKE,
        start_signal_args=[] if first else [row.urgency],
        # Most deliveries end at their first attempt. Without attributes they cost Temporal a fifth
        # less.
        search_attributes=None if at_once else _search_attributes(row),
        static_summary=_summary(row, endpoint),
        static_details=_details(row),
        priority=Priority(priority_key=row.urgency, fairness_key=row.endpoint_id),
        rpc_timeout=START_TIMEOUT,
    )
    return at_once and fast_lane and getattr(handle, _EAGER, False)


async def start_batch(
    client: Client, batch_id: str, delivery_ids: Sequence[str]
) -> WorkflowHandle[object, BatchResult]:
    """Start a batch, eagerly. If it was started already, return its handle. Raises RPCError."""
    names = [batch_messages.short_name(delivery_id) for delivery_id in delivery_ids]
    try:
        return await client.start_workflow(
            batch_messages.WORKFLOW_TYPE,
            batch_messages.BatchInput(batch_id, tuple(delivery_ids)),
            id=batch_messages.workflow_id(batch_id),
            task_queue=DELIVERIES_QUEUE,
            result_type=BatchResult,
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            request_eager_start=True,
            search_attributes=TypedSearchAttributes(
                [SearchAttributePair(search_attributes.DELIVERIES, names)] if names else []
            ),
            static_summary="First attempts",  # without a count: more may be added
            priority=Priority(priority_key=Urgency.FIRST),
            rpc_timeout=START_TIMEOUT,
        )
    except WorkflowAlreadyStartedError:  # and has ended
        return client.get_workflow_handle(
            batch_messages.workflow_id(batch_id), result_type=BatchResult
        )


def _input(
    row: PendingDelivery, endpoint: CachedEndpoint, *, fast_lane: bool, labelled: bool
) -> DeliveryInput:
    life = row.life
    waits = row.new and row.deliver_at is not None
    next_at = row.deliver_at if waits else None
    if not row.new and not row.has_workflow:
        next_at = life.next_attempt_at  # its batch left it at this time
    return DeliveryInput(
        delivery_id=row.delivery_id,
        endpoint_id=row.endpoint_id,
        plan=endpoint.plan,
        now=StepResult(
            status=life.status,
            attempts=life.attempts,
            retries=life.retries,
            next_at=next_at,
            waits_for="first attempt, as scheduled" if waits else "",
            last_error=life.last_error,
            fast_lane=fast_lane,
        ),
        labels=None if labelled else Labels(row.tenant_id, row.event_type),
    )


def _details(row: PendingDelivery) -> str | None:
    """The batch that made the first attempt, for the Temporal UI."""
    if row.new or row.batch_id is None:
        return None
    return f"Began in `{batch_messages.workflow_id(row.batch_id)}`."


def _search_attributes(row: PendingDelivery) -> TypedSearchAttributes:
    """The attributes by which the Temporal UI filters deliveries."""
    return TypedSearchAttributes(
        [
            SearchAttributePair(search_attributes.TENANT, row.tenant_id),
            SearchAttributePair(search_attributes.ENDPOINT, row.endpoint_id),
            SearchAttributePair(search_attributes.EVENT_TYPE, row.event_type),
            SearchAttributePair(search_attributes.STATE, row.life.status.value),
        ]
    )


def _summary(row: PendingDelivery, endpoint: CachedEndpoint) -> str:
    """The Temporal UI's summary, `order.invoice.paid → https://example.com/hooks/…`."""
    return f"{row.event_type} → {short_url(endpoint.url)[:_SUMMARY_URL_LENGTH]}"

"""Steering deliveries: turns a person's wish into a signal to the delivery's workflow.

A signal may come before the relay has started the workflow, so every signal is a
signal-with-start: the workflow is started with the signal in hand, and the relay finds it running.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from temporalio.client import Client
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from hookfast.delivery import DELIVERIES_QUEUE, WORKFLOW_TYPE, workflow_id
from hookfast.delivery_start import Route, delivery_order, search_attributes, summary
from hookfast.errors import Conflict, NotFound, Unavailable
from hookfast.outcome import DeliveryStatus
from hookfast.storage.engine import Database
from hookfast.storage.outbox import PendingDelivery, find_pending, find_route

Action = Literal["pause", "resume", "resend", "cancel"]

_RPC_TIMEOUT = timedelta(seconds=5)


class Steering:
    """Signals deliveries. Raises Conflict when the wish makes no sense for a finished delivery and
    Unavailable when Temporal is away."""

    def __init__(self, client: Client, database: Database, *, fast_lane_timeout: timedelta) -> None:
        self._client = client
        self._database = database
        self._fast_lane_timeout = fast_lane_timeout

    async def signal(self, delivery_id: str, action: Action) -> None:
        """Ask the delivery to do `action`. Returns once Temporal has stored the wish."""
        async with self._database.read() as connection:
            row = await find_pending(connection, delivery_id)
            route = None if row is None else await find_route(connection, row.endpoint_id)
        if row is None or route is None:
            raise NotFound(f"There is no delivery {delivery_id}.")
        if DeliveryStatus(row.status).finished and action != "resend":
            raise _finished(row, action)
        await self._signal_with_start(row, Route(*route), action)

    async def _signal_with_start(self, row: PendingDelivery, route: Route, action: Action) -> None:
        try:
            await self._client.start_workflow(
                WORKFLOW_TYPE,
                delivery_order(row, route, fast_lane_timeout=self._fast_lane_timeout),
                id=workflow_id(row.delivery_id),
                task_queue=DELIVERIES_QUEUE,
                start_signal=action,
                # Only a resend may start a delivery that has ended once more.
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE
                if action == "resend"
                else WorkflowIDReusePolicy.REJECT_DUPLICATE,
                search_attributes=search_attributes(row),
                static_summary=summary(row, route),
                rpc_timeout=_RPC_TIMEOUT,
            )
        except WorkflowAlreadyStartedError:
            raise _finished(row, action) from None
        except RPCError as error:
            if error.status in (RPCStatusCode.INVALID_ARGUMENT, RPCStatusCode.INTERNAL):
                raise
            raise _away() from error
        except RuntimeError as error:  # what a lazy client raises when it cannot connect
            raise _away() from error


def _finished(row: PendingDelivery, action: Action) -> Conflict:
    return Conflict(
        f"The delivery has ended as {row.status}; there is nothing to {action}. "
        "`resend` sends it again.",
        code="delivery_finished",
    )


def _away() -> Unavailable:
    return Unavailable("Temporal is away; the delivery was not told. Try again.")

"""Steering deliveries: turns a person's wish into a signal to the delivery's workflow.

A signal may come before the relay has started the workflow, so every signal is a
signal-with-start: the workflow is started with the signal in hand, and the relay finds it running.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal

from temporalio.client import Client
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from hookfast.delivery import DELIVERIES_QUEUE, WORKFLOW_TYPE, ResendOrder, workflow_id
from hookfast.delivery_start import RPC_TIMEOUT, Route, delivery_order, search_attributes, summary
from hookfast.errors import Conflict, NotFound, Unavailable
from hookfast.outcome import DeliveryStatus
from hookfast.storage.circuits import gates
from hookfast.storage.engine import Database
from hookfast.storage.outbox import PendingDelivery, find_pending, find_route

Action = Literal["pause", "resume", "resend", "cancel"]
"""What a person may ask of a delivery."""
Wish = Literal["pause", "resume", "resend", "cancel", "ask_again"]
"""What a job may: also that what waits at its endpoint's limits asks again, as they were raised."""

# A delivery that has ended starts once more.
_AGAIN = WorkflowIDReusePolicy.ALLOW_DUPLICATE
# One that waits goes on although its workflow was terminated; one whose workflow came to its end a
# moment ago has ended, whatever its row said when it was read.
_IF_LOST = WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY


class Steering:
    """Signals deliveries. Raises Conflict when the wish makes no sense: for a finished delivery, or
    because its endpoint is disabled; and Unavailable when Temporal is away."""

    def __init__(self, client: Client, database: Database, *, fast_lane_timeout: timedelta) -> None:
        self._client = client
        self._database = database
        self._fast_lane_timeout = fast_lane_timeout

    async def signal(self, delivery_id: str, action: Wish, *, gently: bool = False) -> None:
        """Ask the delivery to do `action`. Returns once Temporal has stored the wish. A `resend`
        that is one of many goes `gently`: it waits where deliveries are held. A workflow that was
        lost is started again from the delivery's row, and is told then."""
        row, route = await self._find(delivery_id)
        if action != "resend":
            if DeliveryStatus(row.status).finished:
                raise _finished(row, action)
            await self._signal_with_start(row, route, action, [], reuse=_IF_LOST)
            return
        # Nothing would be sent, and a delivery that had arrived would start over only to die.
        await self._refuse_unless_sendable(row)
        arguments = [ResendOrder(gently=True)] if gently else []
        await self._signal_or_restart(row, route, action, arguments)

    async def release(self, delivery_id: str, *, probe: bool = False) -> None:
        """Tell a held delivery to go, or, with `probe`, to find out whether its endpoint is back.
        One whose workflow was lost is started again from its row."""
        row, route = await self._find(delivery_id)
        if DeliveryStatus(row.status).finished:
            raise _finished(row, "release")
        await self._signal_or_restart(row, route, "release", [probe])

    async def _find(self, delivery_id: str) -> tuple[PendingDelivery, Route]:
        async with self._database.read() as connection:
            row = await find_pending(connection, delivery_id)
            route = None if row is None else await find_route(connection, row.endpoint_id)
        if row is None or route is None:
            raise NotFound(f"There is no delivery {delivery_id}.")
        return row, Route(*route)

    async def _refuse_unless_sendable(self, row: PendingDelivery) -> None:
        async with self._database.read() as connection:
            seen = await gates(connection, [row.endpoint_id])
        state = seen[row.endpoint_id].gate.endpoint_state
        if state == "disabled":
            raise Conflict(
                "The endpoint is disabled; nothing would be sent. Enable it first.",
                code="endpoint_disabled",
            )
        if state == "deleted":
            raise Conflict(
                "The endpoint is deleted; nothing is sent to it any more.",
                code="endpoint_disabled",
            )

    async def _signal_or_restart(
        self, row: PendingDelivery, route: Route, signal: str, arguments: list[Any]
    ) -> None:
        """Tell the workflow, or start it once more where it has ended: from the row as its end left
        it. One that was read just before is of a delivery in the middle of its plan, and would have
        the new run take a resend for one beside the plan, and a release for one that is held."""
        if not DeliveryStatus(row.status).finished:
            try:
                await self._signal_with_start(row, route, signal, arguments, reuse=_IF_LOST)
            except Conflict:
                row, route = await self._find(row.delivery_id)
                if signal == "release" and DeliveryStatus(row.status).finished:
                    raise
            else:
                return
        await self._signal_with_start(row, route, signal, arguments, reuse=_AGAIN)

    async def _signal_with_start(
        self,
        row: PendingDelivery,
        route: Route,
        signal: str,
        arguments: list[Any],
        *,
        reuse: WorkflowIDReusePolicy,
    ) -> None:
        try:
            await self._client.start_workflow(
                WORKFLOW_TYPE,
                delivery_order(row, route, fast_lane_timeout=self._fast_lane_timeout),
                id=workflow_id(row.delivery_id),
                task_queue=DELIVERIES_QUEUE,
                start_signal=signal,
                start_signal_args=arguments,
                id_reuse_policy=reuse,
                search_attributes=search_attributes(row),
                static_summary=summary(row, route),
                rpc_timeout=RPC_TIMEOUT,
            )
        except WorkflowAlreadyStartedError:  # it ended since its row was read
            row, _ = await self._find(row.delivery_id)
            raise _finished(row, signal) from None
        except RPCError as error:
            if error.status in (RPCStatusCode.INVALID_ARGUMENT, RPCStatusCode.INTERNAL):
                raise
            raise _away() from error
        except RuntimeError as error:  # what a lazy client raises when it cannot connect
            raise _away() from error


def _finished(row: PendingDelivery, action: str) -> Conflict:
    return Conflict(
        f"The delivery has ended as {row.status}; there is nothing to {action}. "
        "`resend` sends it again.",
        code="delivery_finished",
    )


def _away() -> Unavailable:
    return Unavailable("Temporal is away; the delivery was not told. Try again.")

"""A workflow that takes an order to its end, and emits an event at each step.

    pip install './packages/client[temporal]'
    HOOKFAST_URL=… HOOKFAST_API_KEY=… python emit_from_workflow.py

It needs a Temporal Service (TEMPORAL_ADDRESS, or the environment configuration of Temporal), and
the event types `order.payment.received` and `order.parcel.shipped`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.envconfig import ClientConfigProfile
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.worker import Worker

from hookfast_client import AsyncHookfast
from hookfast_client.temporal import HookfastPlugin, emit

TASK_QUEUE = "orders"


@dataclass
class Order:
    id: str
    tenant_id: str
    cents: int


@activity.defn
async def charge(order: Order) -> str:
    return f"pay_{order.id}"  # the call of the payment provider


@workflow.defn
class OrderWorkflow:
    @workflow.run
    async def run(self, order: Order) -> None:
        payment = await workflow.execute_activity(
            charge, order, start_to_close_timeout=timedelta(seconds=10)
        )
        await emit(
            "order.payment.received",
            {"order_id": order.id, "payment_id": payment, "cents": order.cents},
            tenant_id=order.tenant_id,
        )
        await workflow.sleep(1)  # until the parcel is handed over
        try:
            await emit("order.parcel.shipped", {"order_id": order.id}, tenant_id=order.tenant_id)
        except ActivityError as error:
            cause = error.cause
            # the event was rejected; the order goes on
            reason = cause.type if isinstance(cause, ApplicationError) else str(cause)
            workflow.logger.warning("order.parcel.shipped was not emitted: %s", reason)


async def main(order: Order) -> None:
    """Run a worker, and one order on it."""
    connect = ClientConfigProfile.load().to_client_connect_config()
    client = await Client.connect(**connect)
    hookfast = AsyncHookfast(os.environ["HOOKFAST_URL"], os.environ["HOOKFAST_API_KEY"])
    worker = Worker(
        client,
        task_queue=TASK_QUEUE,
        workflows=[OrderWorkflow],
        activities=[charge],
        plugins=[HookfastPlugin(hookfast)],
    )
    async with hookfast, worker:
        await client.execute_workflow(
            OrderWorkflow.run, order, id=f"order/{order.id}", task_queue=TASK_QUEUE
        )


if __name__ == "__main__":
    asyncio.run(main(Order(id="8Tx2", tenant_id=sys.argv[1], cents=129900)))

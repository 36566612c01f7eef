"""A workflow that emits as its plan says. It is imported in Temporal's sandbox, as users' are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError

from hookfast_client import EmittedEvent
from hookfast_client.temporal import emit

TYPE = "order.invoice.paid"


@dataclass(frozen=True)
class Plan:
    """What to emit: `data` is JSON. The workflow then continues as new so many `rounds`, or fails
    in its first attempt. `pause` is the seconds before the activity is tried again."""

    tenant_id: str
    data: str = '{"amount": 129900}'
    type: str = TYPE
    key: str | None = None
    rounds: int = 0
    fails: bool = False
    pause: float = 0.05


@workflow.defn
class EmittingWorkflow:
    """Returns the event that it emitted."""

    @workflow.run
    async def run(self, plan: Plan) -> EmittedEvent:
        emitted = await emit(
            plan.type,
            plan.data.encode(),
            tenant_id=plan.tenant_id,
            idempotency_key=plan.key,
            start_to_close_timeout=timedelta(seconds=1),
            retry_policy=RetryPolicy(initial_interval=timedelta(seconds=plan.pause)),
        )
        if plan.fails and workflow.info().attempt == 1:
            raise ApplicationError("The first attempt fails.")
        if plan.rounds:
            workflow.continue_as_new(replace(plan, rounds=plan.rounds - 1))
        return emitted

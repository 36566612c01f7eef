"""Workflows that somebody starts by hand, in the Temporal UI or with its command line."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from temporalio.client import WorkflowFailureError

from hookfast.deliveries import batch_messages, job, messages
from hookfast.deliveries.messages import DELIVERIES_QUEUE
from hookfast.endpoints import outage
from hookfast.owners import digest
from hookfast.retention import ages, daily
from hookfast.temporal.payloads import DATA_CONVERTER
from hookfast.workflow_input import InvalidInput
from hookfast.workflow_request import CONTROL_QUEUE
from tests.integration.delivery.conftest import Stack
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

WORKFLOWS = {
    messages.WORKFLOW_TYPE: DELIVERIES_QUEUE,
    batch_messages.WORKFLOW_TYPE: DELIVERIES_QUEUE,
    outage.WORKFLOW_TYPE: CONTROL_QUEUE,
    digest.WORKFLOW_TYPE: CONTROL_QUEUE,
    job.JOB_WORKFLOW: CONTROL_QUEUE,
    ages.WORKFLOW_TYPE: CONTROL_QUEUE,
    daily.WORKFLOW_TYPE: CONTROL_QUEUE,
}
INPUTS: dict[str, list[Any]] = {
    "none": [],
    "text": ["dlv_1"],
    "wrong-type": [{"delivery_id": 7, "endpoint_id": 7, "left": 7, "job_id": [], "batch_id": {}}],
}


async def test_workflow_started_by_hand_without_a_valid_input_fails_with_a_message(
    stack: Stack,
) -> None:
    async def failure_of(workflow: str, queue: str, name: str) -> str:
        handle = await stack.client.start_workflow(
            workflow, args=INPUTS[name], id=f"by-hand/{workflow}/{name}", task_queue=queue
        )
        try:
            async with asyncio.timeout(PATIENCE):
                await handle.result()
        except WorkflowFailureError as error:
            return str(error.cause)
        except TimeoutError:
            return "its task fails for ever"
        return "completed"

    cases = [(one, queue, name) for one, queue in WORKFLOWS.items() for name in INPUTS]
    found = await asyncio.gather(*(failure_of(*case) for case in cases))

    unexpected = {
        case[0] + " " + case[2]: failure
        for case, failure in zip(cases, found, strict=True)
        if "Hookfast starts its workflows itself" not in failure
    }
    # this input has no members, and unknown ones are ignored
    assert unexpected == {f"{daily.WORKFLOW_TYPE} wrong-type": "completed"}


async def test_input_of_an_activity_that_cannot_be_read_is_not_final() -> None:
    """A newer version may have written it, so an activity with it is repeated."""
    converter = DATA_CONVERTER.payload_converter
    payloads = converter.to_payloads([{"delivery_id": 7}])

    for foreign in (payloads, converter.to_payloads([None]), converter.to_payloads([b"text"])):
        with pytest.raises(InvalidInput):
            converter.from_payloads(foreign, [messages.DeliveryInput])
    with pytest.raises(ValueError, match="validation error"):
        converter.from_payloads(payloads, [messages.StepInput])

"""Today's workflow code replays every saved history.

A change that breaks one of them would break running deliveries: put it behind `workflow.patched`
and save a history of the new shape (`python -m tests.replay.shapes`).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from temporalio import workflow
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

from hookfast.deliveries.messages import WORKFLOW_TYPE, DeliveryInput
from hookfast.temporal.payloads import DATA_CONVERTER
from tests.integration.delivery.conftest import SANDBOX
from tests.replay.shapes import HISTORIES, SHAPES
from workflows.batch import BatchWorkflow
from workflows.circuit_breaker import CircuitBreakerWorkflow
from workflows.daily import DailyWorkflow
from workflows.delivery import DeliveryWorkflow
from workflows.job import JobWorkflow
from workflows.owner_mail import OwnerMailWorkflow
from workflows.retention import RetentionWorkflow

pytestmark = pytest.mark.anyio

WORKFLOWS = [
    BatchWorkflow,
    CircuitBreakerWorkflow,
    DeliveryWorkflow,
    JobWorkflow,
    OwnerMailWorkflow,
    RetentionWorkflow,
    DailyWorkflow,
]


@pytest.mark.parametrize("path", sorted(HISTORIES.glob("*.json")), ids=lambda path: path.stem)
async def test_a_saved_history_replays(path: Path) -> None:
    saved = path.read_text()  # noqa: ASYNC240 - nothing else runs in this loop
    history = WorkflowHistory.from_json(f"delivery/{path.stem}", saved)
    replayer = Replayer(workflows=WORKFLOWS, workflow_runner=SANDBOX, data_converter=DATA_CONVERTER)
    result = await replayer.replay_workflow(history, raise_on_replay_failure=False)
    assert result.replay_failure is None
    assert 'File \\"/' not in saved, "a stack trace names a folder of the machine that recorded it"


def test_every_shape_has_a_saved_history() -> None:
    saved = {path.stem for path in HISTORIES.glob("*.json")}
    assert {shape.__name__ for shape in SHAPES} <= saved


@workflow.defn(name=WORKFLOW_TYPE, sandboxed=False)
class ChangedWorkflow:
    """A workflow with other commands than the saved ones, which would break running workflows."""

    @workflow.run
    async def run(self, input: DeliveryInput) -> None:
        await workflow.sleep(1)


async def test_changed_commands_are_detected() -> None:
    """The proof that `test_a_saved_history_replays` can fail."""
    path = HISTORIES / "delivered_at_once.json"
    history = WorkflowHistory.from_json("delivery/changed", path.read_text())
    replayer = Replayer(workflows=[ChangedWorkflow], data_converter=DATA_CONVERTER)
    result = await replayer.replay_workflow(history, raise_on_replay_failure=False)
    assert isinstance(result.replay_failure, workflow.NondeterminismError)

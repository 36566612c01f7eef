"""A rollout and a rollback under traffic lose nothing, and leave no workflow standing still."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from temporalio.client import WorkflowHistory

from bench.rollout.run import has_failed_task
from bench.rollout.versions import ROOT
from tests.replay.shapes import HISTORIES
from tests.replay.test_rollback import versions


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", ["workflow", "batch"])
def test_nothing_is_lost_when_versions_change_under_traffic(mode: str) -> None:
    old = versions()[0]
    options = ("--old", old, "--mode", mode, "--events", "300", "--rate", "4", "--seed", "7")
    done = subprocess.run(
        [sys.executable, "-m", "bench.rollout", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("cause", "failed"),
    [("NON_DETERMINISTIC_ERROR", True), ("UNHANDLED_COMMAND", False), (None, False)],
)
def test_a_workflow_that_a_worker_did_not_understand_is_found(
    cause: str | None, failed: bool
) -> None:
    saved = json.loads((HISTORIES / "delivered_at_once.json").read_text())
    if cause is not None:
        attributes = {"cause": f"WORKFLOW_TASK_FAILED_CAUSE_{cause}"}
        event = {"eventId": "99", "eventType": "EVENT_TYPE_WORKFLOW_TASK_FAILED"}
        saved["events"].append(event | {"workflowTaskFailedEventAttributes": attributes})
    assert has_failed_task(WorkflowHistory.from_json("saved", json.dumps(saved))) is failed

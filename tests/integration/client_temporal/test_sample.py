"""The sample of the guide works as it is written, and replays."""

from __future__ import annotations

from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Replayer

from hookfast_client.temporal import HookfastPlugin
from tests.docs.fenced import DOCS, blocks
from tests.integration.client_temporal.sample import (
    HISTORY,
    PAID,
    SHIPPED,
    OrderWorkflow,
    run_sample,
)

pytestmark = pytest.mark.anyio


async def _replay(history: WorkflowHistory) -> None:
    replayer = Replayer(workflows=[OrderWorkflow], plugins=[HookfastPlugin()])
    await replayer.replay_workflow(history)


@pytest.mark.heavy
async def test_the_sample_emits_both_events_and_replays(
    temporal: WorkflowEnvironment, sqlite_url: str, tmp_path: Path
) -> None:
    history, events = await run_sample(temporal, sqlite_url, tmp_path, PAID, SHIPPED)
    assert events == [PAID, SHIPPED]
    await _replay(history)


async def test_the_saved_history_of_the_sample_replays() -> None:
    saved = HISTORY.read_text()
    assert "unknown_event_type" in saved  # its second event was rejected
    assert 'File \\"/' not in saved, "a stack trace names a folder of the machine that saved it"
    await _replay(WorkflowHistory.from_json("order/8Tx2", saved))


def test_the_guide_shows_lines_of_the_sample() -> None:
    sample = [
        line.strip() for line in (DOCS / "examples/emit_from_workflow.py").read_text().split("\n")
    ]
    shown = [one for one in blocks(DOCS / "emit-from-workflows.md") if one.language == "python"]
    assert len(shown) == 2
    for block in shown:
        lines = [line.strip() for line in block.text.strip().split("\n")]
        first = sample.index(lines[0])
        assert sample[first : first + len(lines)] == lines

"""The starter starts requested workflows, even if Temporal rejects one of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs
from temporalio.service import RPCError, RPCStatusCode

from hookfast.dispatch import workflow_starter
from hookfast.dispatch.workflow_starter import WorkflowStarter
from hookfast.workflow_request import WorkflowRequest

pytestmark = pytest.mark.anyio


class Rows:
    """A kind of row that requests workflows, without a database."""

    def __init__(self, *workflow_ids: str) -> None:
        self.asking = list(workflow_ids)

    @asynccontextmanager
    async def read(self) -> AsyncIterator[None]:
        yield

    write = read

    async def find(self, connection: Any, *, limit: int) -> list[WorkflowRequest]:
        return [
            WorkflowRequest(key=(id,), workflow="W", workflow_id=id, argument=None, summary="")
            for id in self.asking[:limit]
        ]

    async def mark(
        self, connection: Any, started: Sequence[WorkflowRequest], *, now: object
    ) -> None:
        for one in started:
            self.asking.remove(one.workflow_id)


class Temporal:
    """Rejects some workflows, each with its own status."""

    def __init__(self, **refused: RPCStatusCode) -> None:
        self._refused = refused
        self.started: list[str] = []

    async def start_workflow(self, *args: Any, id: str, **kwargs: Any) -> None:
        if id in self._refused:
            raise RPCError("no", self._refused[id], b"")
        self.started.append(id)


def starter(temporal: Temporal, *kinds: Rows) -> WorkflowStarter:
    return WorkflowStarter(temporal, kinds[0], kinds)  # type: ignore[arg-type]


async def test_rejected_workflow_delays_no_other() -> None:
    temporal = Temporal(b=RPCStatusCode.INVALID_ARGUMENT)
    circuits, jobs = Rows("a", "b", "c"), Rows("d")
    with capture_logs() as lines:
        assert await starter(temporal, circuits, jobs).start_requested() == 3
    assert temporal.started == ["a", "c", "d"]
    assert (circuits.asking, jobs.asking) == (["b"], [])
    assert [line["workflow_id"] for line in lines] == ["b"]


async def test_a_page_of_rejected_workflows_ends_the_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workflow_starter, "_BATCH", 2)
    refused = {id: RPCStatusCode.INVALID_ARGUMENT for id in ("a", "b")}
    circuits, jobs = Rows("a", "b", "c"), Rows("d")
    temporal = Temporal(**refused)
    with capture_logs():
        await starter(temporal, circuits, jobs).start_requested()
    assert temporal.started == ["d"]


async def test_unreachable_temporal_raises_and_marks_nothing() -> None:
    circuits = Rows("a", "b")
    with pytest.raises(RPCError):
        await starter(Temporal(b=RPCStatusCode.UNAVAILABLE), circuits).start_requested()
    assert circuits.asking == ["a", "b"]

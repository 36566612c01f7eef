"""Retention: delete rows past their age, table by table, every night."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy

from hookfast.ids import new_id
from hookfast.retention.ages import (
    SWEEPS,
    WORKFLOW_TYPE,
    Prepared,
    RetentionInput,
    RetentionRunInput,
    RetentionState,
    SweepInput,
    Swept,
)
from hookfast.workflow_input import NO_INPUT, InvalidInput, require

_UNTIL_DONE = RetryPolicy(
    initial_interval=timedelta(seconds=10), maximum_interval=timedelta(minutes=10)
)
_TIMEOUT = timedelta(hours=6)
_HEARTBEAT_TIMEOUT = timedelta(minutes=10)
_QUICK = timedelta(minutes=10)  # of activities that send no heartbeat: a killed worker is noticed
"""Counting the rows of a partition is one statement."""


@workflow.defn(name=WORKFLOW_TYPE, failure_exception_types=[InvalidInput])
class RetentionWorkflow:
    """One run, started by a schedule (`hookfast.dispatch.retention_schedule`) or by hand."""

    def __init__(self) -> None:
        self._swept: dict[str, Swept] = {}

    @workflow.run
    async def run(self, input: RetentionInput = NO_INPUT) -> RetentionState:
        """Determine what is past its age, count it, and delete it. Deletions are committed batch by
        batch, so a run that is stopped keeps what it has done."""
        require(RetentionInput, input)
        run_id = input.run_id or new_id("ret", workflow.now(), random=workflow.random())
        run = RetentionRunInput(run_id, input.dry_run)
        if input.left is None:
            await self._begin(run)
        left = list(SWEEPS if input.left is None else input.left)
        for _ in range(input.activities):
            if not left:
                return await self._finish(run)
            if (await self._sweep(run, left[0])).done:
                left.pop(0)
        workflow.continue_as_new(replace(input, run_id=run_id, left=tuple(left)))

    async def _begin(self, run: RetentionRunInput) -> None:
        workflow.set_current_details("adding up and comparing figures")
        await workflow.execute_activity(
            "begin_retention",
            run,
            start_to_close_timeout=_QUICK,
            retry_policy=_UNTIL_DONE,
            summary="find what is past its age",
        )
        if not run.dry_run:
            await workflow.execute_activity(
                "prepare_retention",
                run,
                result_type=Prepared,
                start_to_close_timeout=_TIMEOUT,
                heartbeat_timeout=_HEARTBEAT_TIMEOUT,
                retry_policy=_UNTIL_DONE,
                summary="partitions ahead, figures added up and compared",
            )

    async def _sweep(self, run: RetentionRunInput, name: str) -> Swept:
        workflow.set_current_details(self._details(now=name, dry_run=run.dry_run))
        swept: Swept = await workflow.execute_activity(
            "sweep_rows",
            SweepInput(run.run_id, name, run.dry_run),
            result_type=Swept,
            start_to_close_timeout=_TIMEOUT,
            heartbeat_timeout=_HEARTBEAT_TIMEOUT,
            retry_policy=_UNTIL_DONE,
            summary=name,
        )
        self._swept[name] = swept
        return swept

    async def _finish(self, run: RetentionRunInput) -> RetentionState:
        state: RetentionState = await workflow.execute_activity(
            "finish_retention",
            run,
            result_type=RetentionState,
            start_to_close_timeout=_QUICK,
            retry_policy=_UNTIL_DONE,
            summary="count the result",
        )
        self._swept = {swept.name: swept for swept in state.swept}
        workflow.set_current_details(self._details(now=None, dry_run=run.dry_run))
        return state

    def _details(self, *, now: str | None, dry_run: bool) -> str:
        verb = "would be deleted" if dry_run else "deleted"
        lines = [
            f"{swept.name}: {swept.deleted:,} {verb}, {swept.kept:,} kept"
            + (f", {swept.partitions} partitions dropped" if swept.partitions else "")
            for swept in self._swept.values()
        ]
        if now is not None:
            lines.append(f"now: {now}")
        return "  \n".join(lines)

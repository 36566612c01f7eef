"""Retention: how long data is kept, what the last runs deleted, and starting a run now."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Self

from fastapi import Body
from pydantic import BaseModel, Field

from api.access.audit import Audit
from api.access.authentication import OperatorOnly
from api.context.context import AppContext, Context
from api.http.fields import Input, Time, example
from api.http.routing import router
from api.http.workflow_link import WorkflowView, workflow_view
from hookfast.audit import AuditedChange
from hookfast.dispatch import retention_schedule
from hookfast.ids import new_id
from hookfast.retention.ages import FIGURES, SWEEPS
from hookfast.storage.retention import retention_runs
from hookfast.storage.retention.retention_runs import Run
from hookfast.storage.tables import RetentionSweep

routes = router("Retention")

_RUNS_SHOWN = 10


class PinnedView(BaseModel):
    """A partition (PostgreSQL) that is past its age and cannot be dropped."""

    partition: str = Field(description="Name of the table's partition in PostgreSQL.")
    reason: str = Field(description="Why a row of it is kept. Its other rows are deleted.")


class SweepView(BaseModel):
    """One table in one run."""

    name: str = Field(description="The table, as in `ages`.")
    before: Time | None = Field(description="Rows from before this time are deleted; null: none.")
    deleted: int = Field(description="Rows deleted; in a dry run, rows that would be deleted.")
    kept: int = Field(description="Rows past their age that are still needed.")
    partitions: int = Field(description="Partitions dropped; `deleted` includes their rows.")
    pinned: list[PinnedView] = Field(description="Partitions that could not be dropped.")
    done: bool = Field(description="Whether this table is finished.")

    @classmethod
    def of(cls, sweep: RetentionSweep) -> Self:
        return cls(**sweep.model_dump(), before=sweep.cutoff)


class RunView(BaseModel):
    """One retention run."""

    id: str = Field(description="Id of the run, `ret_…`.")
    status: str = Field(description="`running` or `done`.")
    dry_run: bool = Field(description="Whether it only counts and deletes nothing.")
    started_at: Time = Field(description="When the run began.")
    finished_at: Time | None
    partitions: int = Field(description="Partitions created for the coming days.")
    rolled_up: int = Field(description="Rows of figures that their hour or day replaces.")
    figures_deleted: int = Field(description="Rows of figures that were past their age.")
    endpoints_compared: int = Field(
        description="Endpoints whose gauges were compared with their deliveries."
    )
    gauges_corrected: int = Field(
        description="Gauges that differed and were corrected. Any number but 0 is a fault in "
        "Hookfast: please report it."
    )
    hours_different: int = Field(
        description="In how many of the last 24 hours figures differ from attempts and "
        "deliveries. Any number but 0 is a fault in Hookfast: please report it."
    )
    sweeps: list[SweepView] = Field(description="The tables, in the order of the run.")
    workflow: WorkflowView

    @classmethod
    def of(cls, one: Run, *, context: Context) -> Self:
        return cls(
            **one.run.model_dump(),
            sweeps=[SweepView.of(sweep) for sweep in one.sweeps],
            workflow=workflow_view(context, one.run.workflow_id, closed_at=one.run.finished_at),
        )


class AgeView(BaseModel):
    """How long a table's rows are kept."""

    name: str = Field(description="The table, e.g. `deliveries`.")
    days: float | None = Field(description="How many days; null: for ever.")


class RetentionView(BaseModel):
    """How long data is kept, and what the last runs did."""

    ages: list[AgeView] = Field(description="How long the rows of each table are kept.")
    next_run_at: Time | None = Field(
        description="Null: unknown at the moment (Temporal is away), or the schedule is paused."
    )
    runs: list[RunView] = Field(description="The last runs, newest first.")


class RunForm(Input):
    """A run to start."""

    model_config = example(dry_run=True)

    dry_run: bool = Field(False, description="Only count the rows that it would delete.")


class StartedView(BaseModel):
    """A started run. It appears in `GET /v1/retention` within moments."""

    id: str = Field(description="Id of the run, `ret_…`.")
    dry_run: bool = Field(description="Whether it only counts and deletes nothing.")
    workflow: WorkflowView


@routes.get("/retention", summary="Get retention ages and the last runs")
async def show_retention(context: AppContext, principal: OperatorOnly) -> RetentionView:
    """Old rows are deleted every night at 03:00 UTC. Figures are kept longer: they are added up by
    hour and by day, and compared with the rows."""
    ages = context.settings.ages
    async with context.database.read() as connection:
        runs = await retention_runs.list_newest(connection, limit=_RUNS_SHOWN)
    return RetentionView(
        ages=[
            AgeView(name=name, days=_days(ages[name]))
            for name in (*SWEEPS, FIGURES)
            if name in ages
        ],
        next_run_at=await retention_schedule.next_run(context.temporal),
        runs=[RunView.of(run, context=context) for run in runs],
    )


@routes.post("/retention/runs", status_code=202, summary="Start a retention run")
async def start_retention(
    context: AppContext,
    audit: Audit,
    principal: OperatorOnly,
    form: Annotated[RunForm | None, Body()] = None,
) -> StartedView:
    """Starts a run now. With `dry_run` it only counts, and deletes nothing."""
    dry_run = form is not None and form.dry_run
    run_id = new_id("ret", context.clock())
    await retention_schedule.start(context.temporal, run_id, dry_run=dry_run)
    if not dry_run:
        # Logged after the start, which may fail: a crash in between loses the entry, but a run that
        # never started is never logged. The run's own row (`retention_runs`) exists in any case.
        change = AuditedChange(
            action="retention.run", resource="retention", resource_id=run_id, tenant_id=None
        )
        async with context.database.write() as connection:
            await audit.record(connection, change)
    return StartedView(
        id=run_id,
        dry_run=dry_run,
        workflow=workflow_view(context, retention_schedule.workflow_id(run_id)),
    )


def _days(age: timedelta) -> float | None:
    return age / timedelta(days=1) if age else None

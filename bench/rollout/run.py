"""One rollout forwards and one back, from the first event to the table."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rich.console import Console
from temporalio.api.enums.v1 import WorkflowTaskFailedCause
from temporalio.client import Client, WorkflowHistory

from bench.chaos.database import Disk
from bench.chaos.emitter import Emitter
from bench.chaos.evidence import Evidence
from bench.chaos.part import Part
from bench.chaos.people import People
from bench.chaos.report import Line, show
from bench.chaos.rows import Watch
from bench.chaos.run import judge, keep_evidence, wait_for_the_end
from bench.chaos.service import Service, running_service
from bench.rollout.versions import ROOT, environment_of
from hookfast.storage.database.engine import Database

OLD: Final = "old"
NEW: Final = "new"

_PERIODS = 7
"""Three processes are replaced forwards, and three back."""
_SLOWER, _LEAST_SECONDS = 5, 300
"""The run may take this multiple of its planned time, and these seconds more."""
_DRAIN_SECONDS = 45.0  # more than HOOKFAST_SHUTDOWN_GRACE: nothing is cut off
_HARMLESS: Final = (
    # a signal came while the task was being answered, or the worker that cached it was replaced
    WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND,
    WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_RESET_STICKY_TASK_QUEUE,
)


@dataclass(frozen=True, slots=True)
class Order:
    """The options of a run. `old`: the revision to begin with and to return to, with its code in
    `tree`."""

    old: str
    tree: Path
    events: int
    rate: float
    database: str
    mode: str
    seed: str

    @property
    def seconds(self) -> float:
        """For how many seconds events are emitted."""
        return self.events / self.rate

    @property
    def title(self) -> str:
        """The title of its table."""
        return (
            f"{self.events:,} events, {self.old[:12]} → this version → {self.old[:12]}, "
            f"on {self.database}, {self.mode}, seed {self.seed}"
        )


@dataclass(slots=True)
class Rollout:
    """The processes of a service, and the version that each process id belongs to."""

    service: Service
    trees: Mapping[str, Path]
    """Folders with the code of each version, by the version's name."""
    versions: dict[int, str] = field(default_factory=dict)

    async def replace(self, part: Part, version: str) -> None:
        """Drain the process and start it again with the code of `version`."""
        await part.kill(signal.SIGTERM, patience=_DRAIN_SECONDS)
        part.environment |= environment_of(self.trees[version])
        if part is self.service.api:
            await self.service.start_api()
        else:
            await part.start()
        self.versions[part.pid] = version

    async def roll(self, version: str, *, pause: float) -> AsyncIterator[str]:
        """Replace all processes one after the other, as docs/upgrading.md says: forwards the
        workers first, back the API first. Yield the name of each, and wait for `pause` seconds."""
        parts = [*self.service.workers, self.service.api]
        for part in parts if version == NEW else reversed(parts):
            await self.replace(part, version)
            yield part.name
            await asyncio.sleep(pause)


async def run(order: Order, home: Path, console: Console, *, keep: Path | None = None) -> bool:
    """Roll this version out and back under traffic, and print the table. Return whether all is
    well; if not, keep logs, database and evidence."""
    evidence, well = Evidence(), False
    with Disk(home / "database") as disk:
        try:
            async with (
                running_service(  # of this version: it migrates the database
                    home, disk, kind=order.database, mode=order.mode, seed=order.seed, clocks=False
                ) as service,
                Database(service.database.url) as database,
            ):
                watch = Watch(database)
                rollout = Rollout(service, {OLD: order.tree, NEW: ROOT})
                people = await _emit_and_roll(order, rollout, evidence, watch, console)
                await wait_for_the_end(people, watch)
                verdict = await judge(service, evidence, watch)
                failed = await _failed_workflow_tasks(service)
            made = Counter(rollout.versions.get(one.sender, "?") for one in evidence.requests)
            verdict.more = [
                Line("requests by the old and by this version", f"{made[OLD]:,} and {made[NEW]:,}"),
                Line("workflows with a failed task", f"{len(failed):,}", failed),
            ]
            well = show(verdict, console, title=order.title)
        finally:
            if keep is not None or not well:
                keep_evidence(home, keep or Path("var/rollout") / order.seed, evidence, console)
    return well


async def _emit_and_roll(
    order: Order, rollout: Rollout, evidence: Evidence, watch: Watch, console: Console
) -> People:
    """Emit events while the versions change, forwards and back."""
    service = rollout.service
    emitter = Emitter(
        service, evidence, seed=order.seed, events=order.events, seconds=order.seconds
    )
    await emitter.register()
    async for _ in rollout.roll(OLD, pause=0):
        pass
    await service.wait_until_ready()
    people = People(service, evidence, emitter.endpoints, seed=order.seed)
    evidence.begun = time.time()
    pause = order.seconds / _PERIODS

    async def change_versions() -> None:
        await asyncio.sleep(pause)
        for version in (NEW, OLD):
            async for replaced in rollout.roll(version, pause=pause):
                await watch.look()
                console.print(
                    f"{time.time() - evidence.begun:5.0f} s  {replaced} is {version}: "
                    f"{len(evidence.accepted):,} events accepted, {watch.open:,} deliveries open",
                    highlight=False,
                )

    async with asyncio.timeout(order.seconds * _SLOWER + _LEAST_SECONDS):
        async with asyncio.TaskGroup() as group:
            group.create_task(people.run())
            changing = group.create_task(change_versions())
            await emitter.run()
            await changing
            people.stop()
    await service.ask_receiver("/calm")
    return people


async def _failed_workflow_tasks(service: Service) -> list[str]:
    """Return the workflows of which a task failed: a worker did not understand their history."""
    client = await Client.connect(service.temporal_server.address)
    found = []
    async for one in client.list_workflows():
        history = await client.get_workflow_handle(one.id, run_id=one.run_id).fetch_history()
        if has_failed_task(history):
            found.append(one.id.removeprefix("delivery/"))
    return found


def has_failed_task(history: WorkflowHistory) -> bool:
    """Whether a worker could not complete a task of this workflow."""
    return any(
        event.HasField("workflow_task_failed_event_attributes")
        and event.workflow_task_failed_event_attributes.cause not in _HARMLESS
        for event in history.events
    )

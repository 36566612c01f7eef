"""One storm, from the first event to the table."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.text import Text
from sqlalchemy.exc import SQLAlchemyError
from temporalio.client import Client

from bench import recount
from bench.chaos.checks import drift
from bench.chaos.clock import INSTALL, libfaketime
from bench.chaos.database import Disk
from bench.chaos.emitter import Emitter
from bench.chaos.evidence import Evidence, Request
from bench.chaos.people import People
from bench.chaos.report import Verdict, show
from bench.chaos.rows import Watch, read_rows
from bench.chaos.service import Service, running_service
from bench.chaos.storm import CLOCKS, Storm
from hookfast.deliveries.messages import WORKFLOW_TYPE
from hookfast.storage.database.engine import Database

_LEAST_SECONDS = 60.0
"""Shortest storm in seconds, so that it hits every part even with few events."""
_QUIET_SECONDS = 480.0
"""After the storm, open deliveries are stuck if none has ended for this long. The longest waits are
those of the plan (15 s), a circuit's ramp, and the sweep for lost deliveries (6 min)."""
_WORKFLOWS_SECONDS = 60.0
_SLOWER = 10
"""The storm may take this multiple of its planned time until everything is accepted."""
_OPEN = f"WorkflowType = '{WORKFLOW_TYPE}' AND ExecutionStatus = 'Running'"
_OVERDUE = "Overdue deliveries were put back into the outbox."
_RESUME_SECONDS = 2.0
_REFRESH_SECONDS = 0.5
_LINE_SECONDS = 10.0


class TookTooLong(Exception):
    """The storm did not end in time."""


@dataclass(frozen=True, slots=True)
class Order:
    """The options of a run. `calm`: the most seconds between two faults; `mode`: how first attempts
    are sent; `only`: the only kind of fault; `away`: the seconds that Temporal is away; `keys`: the
    number of ordering keys, 0 for events without order."""

    events: int
    rate: float
    calm: float
    seed: str
    database: str
    mode: str
    only: str | None
    away: float
    keys: int

    @property
    def seconds(self) -> float:
        """For how many seconds events are emitted."""
        return max(_LEAST_SECONDS, self.events / self.rate)

    @property
    def title(self) -> str:
        """The title of its table."""
        what = f"{self.only} again and again" if self.only else "everything at once"
        order = f" in order of {self.keys} keys" if self.keys else ""
        where = f"on {self.database}, {self.mode}, seed {self.seed}"
        return f"{self.events:,} events{order}, {what}, {where}"


async def run(order: Order, home: Path, console: Console, *, keep: Path | None) -> bool:
    """Run the storm, wait until everything has ended, and print the table. Return whether all is
    well; if not, keep logs, database and evidence."""
    console.print(f"{order.title}: starting …")
    evidence, well = Evidence(), False
    with Disk(home / "database") as disk:
        if not disk.can_be_full:
            console.print("The disk is never full in this run: that takes root, on Linux.")
        clocks = order.database == "postgresql" and order.only in (None, *CLOCKS)
        if clocks and libfaketime() is None:
            console.print(f"No clock jumps in this run: {INSTALL}.")
            clocks = False
        try:
            async with (
                running_service(
                    home,
                    disk,
                    kind=order.database,
                    mode=order.mode,
                    seed=order.seed,
                    clocks=clocks,
                ) as service,
                Database(service.database.url) as database,
            ):
                watch = Watch(database)
                async with _shown(order, service, evidence, watch, console):
                    people = await _rage(order, service, evidence)
                    await wait_for_the_end(people, watch)
                verdict = await judge(service, evidence, watch)
            well = show(verdict, console, title=order.title)
        finally:
            if keep is not None or not well:
                keep_evidence(home, keep or Path("var/chaos") / order.seed, evidence, console)
    return well


async def _rage(order: Order, service: Service, evidence: Evidence) -> People:
    """Wait until every event is accepted, and the storm and its people have ended."""
    emitter = Emitter(
        service,
        evidence,
        seed=order.seed,
        events=order.events,
        seconds=order.seconds,
        keys=order.keys,
    )
    await emitter.register()
    storm = Storm(
        service, evidence, seed=order.seed, calm=order.calm, only=order.only, away=order.away
    )
    people = People(service, evidence, emitter.endpoints, seed=order.seed)
    evidence.begun = time.time()
    try:
        async with asyncio.timeout(order.seconds * _SLOWER), asyncio.TaskGroup() as group:
            group.create_task(storm.run())
            group.create_task(people.run())
            await emitter.run()
            storm.stop()
            people.stop()
    except TimeoutError:
        accepted = f"{len(evidence.accepted):,} of {order.events:,} events"
        raise TookTooLong(
            f"After {order.seconds * _SLOWER:.0f} s only {accepted} were accepted."
        ) from None
    await service.ask_receiver("/calm")
    return people


async def wait_for_the_end(people: People, watch: Watch) -> None:
    """Wait until no delivery is open, or the open ones are stuck; the table lists them."""
    fewest, since = float("inf"), time.monotonic()
    while time.monotonic() - since < _QUIET_SECONDS:
        await people.resume_everything()
        with contextlib.suppress(SQLAlchemyError):  # it may still recover
            await watch.look()
            if watch.open == watch.in_outbox == 0:
                return
            if watch.open < fewest:
                fewest, since = watch.open, time.monotonic()
        await asyncio.sleep(_RESUME_SECONDS)


async def judge(service: Service, evidence: Evidence, watch: Watch) -> Verdict:
    """Read rows, figures and requests, and compare them."""
    rows = await read_rows(watch.database)
    differences = await recount.differences(watch.database, ends=True)
    noted = json.loads(await service.ask_receiver("/log"))
    evidence.requests = [Request(*values) for values in noted]
    return Verdict(
        evidence=evidence,
        rows=rows,
        watch=watch,
        parts=service.parts,
        open_workflows=await open_workflows(service.temporal_server.address),
        woken_by_sweep=sum(_woken_by_sweep(worker.log) for worker in service.workers),
        drift=drift(differences, rows.deliveries.values()),
    )


async def open_workflows(address: str, *, namespace: str = "default") -> list[str]:
    """Return deliveries whose workflows are still open after they had time to end."""
    client = await Client.connect(address, namespace=namespace)
    give_up_at = time.time() + _WORKFLOWS_SECONDS
    while True:
        found = [one.id.removeprefix("delivery/") async for one in client.list_workflows(_OPEN)]
        if not found or time.time() > give_up_at:
            return found
        await asyncio.sleep(1)


def _woken_by_sweep(log: Path) -> int:
    """Return deliveries that only the sweep found, minutes late."""
    woken = 0
    for line in log.read_text(errors="replace").splitlines():
        with contextlib.suppress(ValueError):
            said = json.loads(line)
            if isinstance(said, dict) and said.get("event") == _OVERDUE:
                woken += said["count"]
    return woken


@asynccontextmanager
async def _shown(
    order: Order, service: Service, evidence: Evidence, watch: Watch, console: Console
) -> AsyncIterator[None]:
    """Read the rows and show their status while the block lasts."""

    def status() -> str:
        counts, accepted = watch.counts, len(evidence.accepted)
        dead = counts["dead"] + counts["gone"]
        ended = f"{counts['delivered']:,} delivered, {dead:,} dead, {watch.open:,} open"
        now = ", ".join(evidence.now()) or "calm"
        seconds = time.time() - evidence.begun
        return f"{seconds:5.0f} s  {accepted:,} of {order.events:,} accepted, {ended}  [{now}]"

    async def show_lines() -> None:
        while True:
            console.print(status(), markup=False, highlight=False)
            await asyncio.sleep(_LINE_SECONDS)

    async def show_live() -> None:
        with Live(console=console, transient=True) as live:
            while True:
                live.update(Text(status()))
                await asyncio.sleep(_REFRESH_SECONDS)

    tasks = [
        asyncio.create_task(watch.run()),
        asyncio.create_task(show_live() if console.is_terminal else show_lines()),
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def keep_evidence(home: Path, folder: Path, evidence: Evidence, console: Console) -> None:
    """Copy logs and database to a permanent folder, and write the evidence beside them."""
    left_out = shutil.ignore_patterns("ballast", ".s.*")
    shutil.copytree(home, folder, ignore=left_out, dirs_exist_ok=True)
    (folder / "evidence.json").write_text(json.dumps(dataclasses.asdict(evidence)))
    console.print(f"Logs, database and evidence are in {folder}.")

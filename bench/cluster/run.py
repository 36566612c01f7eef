"""One run: the cluster, its faults under traffic, and the table."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from bench.chaos.evidence import Evidence, Request
from bench.chaos.rows import Watch, read_rows
from bench.chaos.run import open_workflows
from bench.chaos.service import receiver_command, start_receiver
from bench.cluster.backing import NAMESPACE, python_environment
from bench.cluster.build import build
from bench.cluster.cluster import Cluster, running_cluster
from bench.cluster.compose import ROOT, read_compose
from bench.cluster.faults import Row
from bench.cluster.judgement import Outcome, judge
from bench.cluster.report import line, show
from bench.cluster.traffic import Platform
from hookfast.storage.database.engine import Database

_LOOK_SECONDS = 0.5
_OPEN = text("SELECT count(*) FROM deliveries WHERE finished_at IS NULL OR started_at IS NULL")


@dataclass(frozen=True, slots=True)
class Order:
    """The options of a run. `events` and `batched`: single events, and those of batches, of all
    rows together; `rate`: most single events a second; `patience`: deliveries are stuck if none
    has ended for this many seconds after the fault."""

    events: int
    batched: int
    rate: float
    mode: str
    temporals: int
    apis: int
    workers: int
    patience: float
    seed: str
    rows: Sequence[Row]

    @property
    def title(self) -> str:
        """The title of its table."""
        parts = f"{self.temporals} Temporal, {self.apis} API, {self.workers} worker"
        return f"{self.events:,} single events, {self.batched:,} batched, {self.mode}; {parts}"


async def run(order: Order, home: Path, console: Console, *, keep: Path | None) -> bool:
    """Run the faults one after the other and print the table. Return whether all is well; if not,
    keep logs and evidence."""
    await asyncio.to_thread(build, read_compose(), console)
    begun = time.monotonic()
    evidence, well = Evidence(), False
    try:
        async with running_cluster(
            home,
            temporals=order.temporals,
            apis=order.apis,
            workers=order.workers,
            settings={"HOOKFAST_FIRST_ATTEMPTS": order.mode},
            console=console,
        ) as cluster:
            console.print(f"Ready in {time.monotonic() - begun:.1f} s: {cluster.url}")
            well = await _rage(order, cluster, evidence, console)
    finally:
        if keep is not None or not well:
            _keep(home, keep or ROOT / "var" / "cluster" / order.seed, evidence, console)
    return well


async def _rage(order: Order, cluster: Cluster, evidence: Evidence, console: Console) -> bool:
    receiver = cluster.backing.part(
        "receiver", receiver_command(order.seed), python_environment(ROOT)
    )
    cluster.stack.push_async_callback(receiver.kill)
    receiver_url = await start_receiver(receiver)
    platform = Platform(cluster.client, receiver_url, seed=order.seed)
    await platform.register()
    outcomes: list[Outcome] = []
    async with Database(cluster.backing.hookfast_url()) as database:
        for number, row in enumerate(order.rows):
            console.print(f"{row.name} …", end=" ", highlight=False)
            outcome = await _run_row(order, number, cluster, platform, evidence, database)
            outcomes.append(outcome)
            console.print(line(outcome), highlight=False)
        rows = await read_rows(database)
        watch = Watch(database)
        await watch.look()
    log = await cluster.client.get(f"{receiver_url}/log", timeout=60)
    evidence.requests = [Request(*values) for values in json.loads(log.content)]
    judge(outcomes, rows, evidence.requests, evidence.faults)
    show(outcomes, console, title=order.title)
    still_open = await open_workflows(cluster.backing.temporal_address, namespace=NAMESPACE)
    wrong = {
        "workflows left open": still_open,
        "illegal states of rows": [f"{key}: {what}" for key, what in watch.illegal],
    }
    for what, found in wrong.items():
        console.print(f"{what}: {len(found)}", style="bold red" if found else "")
        for one in found[:5]:
            console.print(f"  {one}", markup=False)
    ended = {part.name: part.ended_by_itself for part in cluster.parts if part.ended_by_itself}
    console.print(f"processes that ended by themselves, and were started again: {ended or 0}")
    well = all(outcome.well for outcome in outcomes) and not any(wrong.values())
    verdict = "Nothing was lost, duplicated or stuck." if well else "FAILED."
    console.print(verdict, style="bold green" if well else "bold red")
    return well


async def _run_row(
    order: Order,
    number: int,
    cluster: Cluster,
    platform: Platform,
    evidence: Evidence,
    database: Database,
) -> Outcome:
    row = order.rows[number]
    singles, batched = (share(total, number, len(order.rows)) for total in
                        (order.events, order.batched))  # fmt: skip
    seconds = max(row.seconds, singles / order.rate)
    before = await _count_open(database)
    traffic = asyncio.create_task(
        platform.emit(singles=singles, batched=batched, seconds=seconds), name="traffic"
    )
    try:
        await asyncio.sleep(seconds / 5)
        await row.act(cluster, evidence)
        seen = await traffic
    finally:
        traffic.cancel()
    ended = time.monotonic()
    fewest, since = None, ended
    while time.monotonic() - since < order.patience:
        with contextlib.suppress(SQLAlchemyError):  # it may still recover
            count = await _count_open(database)
            if count <= before:
                break
            if fewest is None or count < fewest:
                fewest, since = count, time.monotonic()
        await asyncio.sleep(_LOOK_SECONDS)
    return Outcome(row.name, seen, settled=time.monotonic() - ended)


def share(total: int, number: int, rows: int) -> int:
    """Return this row's part of a total, so that the parts add up to it."""
    return total * (number + 1) // rows - total * number // rows


async def _count_open(database: Database) -> int:
    async with database.read() as connection:
        return int((await connection.execute(_OPEN)).scalar_one())


def _keep(home: Path, folder: Path, evidence: Evidence, console: Console) -> None:
    """Copy logs and write the evidence to a permanent folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for log in home.glob("*.log"):
        shutil.copy(log, folder)
    (folder / "evidence.json").write_text(json.dumps(dataclasses.asdict(evidence)))
    console.print(f"Logs and evidence are in {folder}.")

"""`python -m bench.pages`: fills the databases, measures, and prints a table of each."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import uvloop
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from sqlalchemy import func, select, text

from bench import pages
from bench.footprint.stores import size_of_file
from bench.pages import copying, originals, report, verifying
from bench.pages.measuring import Timing, measure
from bench.pages.requests import Subject
from bench.parts import OPERATOR_KEY, own_database, running_bench
from hookfast.deliveries.figures import DEAD
from hookfast.settings.database_url import sqlite_url
from hookfast.storage.database.engine import Database
from hookfast.storage.tables import Delivery, Gauge

DATABASES: Final = ("sqlite", "postgresql")
_DAYS: Final = 30
_ROWS_PER_ENDPOINT: Final = 500
_FEWEST_ENDPOINTS: Final = 200
_MOST_ENDPOINTS: Final = 1_000
_FILLED: Final = "filled.json"
"""In the folder of a database that is filled: what the requests are about."""
_D = Delivery.__table__.c
_G = Gauge.__table__.c

console = Console(highlight=False)


class Run:
    """Fills and measures one database, in a folder."""

    def __init__(self, kind: str, home: Path, arguments: argparse.Namespace) -> None:
        self._kind = kind
        self._home = home
        self._arguments = arguments
        self._begun = time.monotonic()

    async def run(self) -> list[Timing]:
        """Fill the database, unless the folder has a filled one, and measure."""
        filled = self._home / _FILLED
        if not filled.exists():
            if self._home.exists() and any(self._home.iterdir()):
                raise SystemExit(f"{self._home} is not a database that was filled; delete it.")
            self._home.mkdir(parents=True, exist_ok=True)
            await self._deliver()
        with self._database() as environment:
            if not filled.exists():
                url = environment.get("HOOKFAST_DATABASE_URL") or sqlite_url(self._home)
                async with Database(url) as database:
                    await self._fill(database)
                    subject = await _subject(database)
                filled.write_text(json.dumps(asdict(subject)))
            subject = Subject(**json.loads(filled.read_text()))
            with self._progress() as (progress, task):
                return await measure(
                    environment,
                    self._home,
                    subject,
                    times=self._arguments.times,
                    progress=lambda name: progress.update(task, description=name),
                )

    def _say(self, what: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - self._begun), 60)
        console.print(f"{self._kind} {minutes:2}:{seconds:02}  {what}", style="dim", markup=False)

    async def _deliver(self) -> None:
        self._say("starting `hookfast up`")
        rows = self._arguments.rows
        most = min(_MOST_ENDPOINTS, rows // _ROWS_PER_ENDPOINT)
        each = originals.ENDPOINTS_EACH
        endpoints = max(_FEWEST_ENDPOINTS, most) // each * each
        async with running_bench(
            self._home,
            postgresql=self._kind == "postgresql",
            settings={"HOOKFAST_LOG_LEVEL": "warning"},
            sink_command=originals.RECEIVER,
        ) as bench:
            await originals.deliver(bench, endpoints=endpoints, say=self._say)

    async def _fill(self, database: Database) -> None:
        rows = self._arguments.rows
        self._say(f"copying to {rows:,} deliveries")
        with self._progress(rows) as (progress, task):
            await copying.fill(
                database,
                rows,
                days=_DAYS,
                progress=lambda step, done: progress.update(task, description=step, completed=done),
            )
        self._say("comparing the figures with the rows")
        checked = await verifying.verify(database)
        self._say(f"{checked.compared:,} numbers compared, {len(checked.wrong)} wrong")
        if checked.wrong:
            raise SystemExit("\n".join(checked.wrong[:20]))
        await _analyze(database)
        self._say(f"filled: {await _size(database) / 1e9:.1f} GB")

    @contextmanager
    def _database(self) -> Iterator[dict[str, str]]:
        """Yield the settings of processes that use the database, while its server runs."""
        environment = {
            "HOOKFAST_HOME": str(self._home),
            "HOOKFAST_OPERATOR_KEY": OPERATOR_KEY,
            "HOOKFAST_ALLOWED_PRIVATE_NETWORKS": "127.0.0.0/8",
            "HOOKFAST_ALLOW_HTTP": "true",
            "HOOKFAST_LOG_LEVEL": "error",
        }
        with own_database(self._home, environment, postgresql=self._kind == "postgresql"):
            yield environment

    @contextmanager
    def _progress(self, total: int | None = None) -> Iterator[tuple[Progress, Any]]:
        columns = [TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()]
        if total is not None:
            columns.insert(2, MofNCompleteColumn())
        with Progress(*columns, console=console, transient=True) as progress:
            yield progress, progress.add_task("", total=total)


async def _subject(database: Database) -> Subject:
    """Find what the requests are about."""
    async with database.background.read() as connection:
        number = func.count()
        owner = (_D.tenant_id, _D.endpoint_id, _D.event_type)
        most = (
            await connection.execute(
                select(*owner).group_by(*owner).order_by(number.desc()).limit(1)
            )
        ).one()
        newest = (
            await connection.execute(
                select(_D.id, _D.event_id)
                .where(_D.endpoint_id == most.endpoint_id, _D.status == "delivered")
                .order_by(_D.id.desc())
                .limit(1)
            )
        ).one()
        dead = [_G.kind.startswith(f"{status}:") for status in DEAD]
        failing = await connection.scalar(
            select(_G.endpoint_id)
            .where(dead[0] | dead[1])
            .group_by(_G.endpoint_id)
            .order_by(func.sum(_G.number).desc())
            .limit(1)
        )
    return Subject(
        tenant=most.tenant_id,
        endpoint=most.endpoint_id,
        failing=str(failing),
        event_type=most.event_type,
        delivery=newest.id,
        event=newest.event_id,
    )


async def _analyze(database: Database) -> None:
    """Do what autovacuum does some time after such an amount of changes."""
    if database.kind == "postgresql":
        engine = database.background._writer.execution_options(isolation_level="AUTOCOMMIT")
        async with engine.connect() as connection:
            await connection.execute(text("VACUUM (ANALYZE)"))


async def _size(database: Database) -> float:
    """Return the bytes of the database on disk."""
    if database.file is not None:
        return size_of_file(database.file)
    async with database.read() as connection:
        size = await connection.scalar(text("SELECT pg_database_size(current_database())"))
        return float(size or 0)


async def _main(arguments: argparse.Namespace) -> int:
    kinds = DATABASES if arguments.database == "both" else (arguments.database,)
    found: dict[str, Sequence[Timing]] = {}
    for kind in kinds:
        with ExitStack() as stack:
            if arguments.keep is None:
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="hookfast-pages-"))
                home = Path(folder)
            else:
                home = arguments.keep / f"{kind}-{arguments.rows}"
            found[kind] = await Run(kind, home, arguments).run()
        title = f"{kind}, {arguments.rows:,} deliveries, {arguments.times} requests each"
        report.show(found[kind], console, title=title)
    if arguments.json is not None:
        figures = {kind: report.as_json(timings) for kind, timings in found.items()}
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")
    return int(any(one.missed for timings in found.values() for one in timings))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.pages",
        description=pages.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--rows", type=int, default=1_000_000, help="deliveries in the database")
    add("--database", default="postgresql", choices=[*DATABASES, "both"])
    add("--times", type=int, default=30, help="requests of each page, after three")
    add("--keep", type=Path, metavar="FOLDER", help="keep the databases here, and use them again")
    add("--json", type=Path, metavar="FILE", help="write all figures to this file")
    return parser.parse_args()


def main() -> None:
    sys.exit(uvloop.run(_main(_arguments())))


if __name__ == "__main__":
    main()

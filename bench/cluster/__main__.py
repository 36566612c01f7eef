"""Hookfast as it is run in production, on one machine, and what faults do to it: `make cluster`.

    python -m bench.cluster                        every fault, one after the other
    python -m bench.cluster --mode batch           first attempts in batches
    python -m bench.cluster --old v0.1.0           also with a second version beside this one
    python -m bench.cluster --serve                run it until Ctrl-C, and print its addresses

PostgreSQL, Temporal servers that form a cluster, APIs behind Caddy, and workers, each a process of
its own on loopback, with the settings and scripts of `docker-compose.yml`. Exits with 1 if anything
is lost, duplicated or stuck. See docs/cluster.md.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from bench.cluster.backing import NAMESPACE, ScriptFailed
from bench.cluster.build import CannotBuild
from bench.cluster.cluster import running_cluster
from bench.cluster.compose import ROOT
from bench.cluster.faults import rows
from bench.cluster.postgresql import NoPostgresql
from bench.cluster.run import Order, run
from hookfast.supervisor.interrupt import interruptible

_INTERRUPTED = 130
_WIDTH = 150


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.cluster",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--events", type=int, default=4650, help="single events")
    parser.add_argument("--batched", type=int, help="events of batches; default: about twice that")
    parser.add_argument("--rate", type=float, default=20, help="most single events a second")
    parser.add_argument("--mode", choices=("auto", "workflow", "batch"), default="auto")
    parser.add_argument("--temporals", type=int, default=2)
    parser.add_argument("--apis", type=int, default=2)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--only", metavar="TEXT", help="only the rows with this in their name")
    parser.add_argument("--old", metavar="REVISION", help="also run this version beside this one")
    parser.add_argument("--patience", type=float, default=120, help="seconds until a delivery is "
                        "stuck")  # fmt: skip
    parser.add_argument("--serve", action="store_true", help="only run it, until Ctrl-C")
    parser.add_argument("--keep", type=Path, help="leave logs and evidence in this folder")
    given = parser.parse_args()
    sys.exit(asyncio.run(_main(given, parser)))


async def _main(given: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    # a file gets lines that are wide enough for the table
    console = Console(width=None if sys.stdout.isatty() else _WIDTH)
    # short, because a socket's path has at most 107 bytes
    home = Path(tempfile.mkdtemp(prefix="hf-cluster-"))
    try:
        async with interruptible():
            with _worktree(given.old, home / "old") as old:
                if given.serve:
                    return await _serve(given, home, console)
                order = _order(given, old)
                if not order.rows:
                    parser.error("no row has that in its name, with these numbers of parts")
                return 0 if await run(order, home, console, keep=given.keep) else 1
        return _INTERRUPTED
    except (CannotBuild, NoPostgresql, ScriptFailed) as error:
        console.print(str(error), style="bold red", markup=False)
        return 1
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _order(given: argparse.Namespace, old: Path | None) -> Order:
    chosen = [
        row
        for row in rows(old=old)
        if row.temporals <= given.temporals and (given.only or "") in row.name
    ]
    return Order(
        events=given.events,
        batched=given.events * 9000 // 4650 if given.batched is None else given.batched,
        rate=given.rate,
        mode=given.mode,
        temporals=given.temporals,
        apis=given.apis,
        workers=given.workers,
        patience=given.patience,
        seed=secrets.token_hex(3),
        rows=chosen,
    )


async def _serve(given: argparse.Namespace, home: Path, console: Console) -> int:
    """Run the cluster until Ctrl-C, and print what other programs need to use it."""
    async with running_cluster(
        home,
        temporals=given.temporals,
        apis=given.apis,
        workers=given.workers,
        settings={"HOOKFAST_FIRST_ATTEMPTS": given.mode},
        console=console,
    ) as cluster:
        backing = cluster.backing
        for name, value in (
            ("HOOKFAST_URL", cluster.url),
            ("HOOKFAST_API_KEY", (backing.secrets / "operator_key").read_text().strip()),
            ("TEMPORAL_ADDRESS", backing.temporal_address),
            ("TEMPORAL_NAMESPACE", NAMESPACE),
            ("DATABASE_URL", backing.database_url()),
            ("TEMPORAL_DATABASE_URL", backing.database_url("temporal")),
            ("TEMPORAL_VISIBILITY_URL", backing.database_url("temporal_visibility")),
        ):
            console.print(f"export {name}='{value}'", highlight=False, soft_wrap=True)
        await asyncio.Event().wait()
    return 0


@contextmanager
def _worktree(revision: str | None, folder: Path) -> Iterator[Path | None]:
    """Check this revision out while the block lasts."""
    if revision is None:
        yield None
        return
    git = ["git", "-C", str(ROOT), "worktree"]
    subprocess.run([*git, "add", "--quiet", "--detach", str(folder), revision], check=True)
    try:
        yield folder
    finally:
        subprocess.run([*git, "remove", "--force", str(folder)], check=True)


if __name__ == "__main__":
    main()

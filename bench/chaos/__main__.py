"""A seeded storm of faults on the real parts, and checks that nothing was lost: `make chaos`.

    python -m bench.chaos                          everything at once, on SQLite
    python -m bench.chaos --database postgresql    the same on PostgreSQL
    python -m bench.chaos --database standby       with a standby, which takes over
    python -m bench.chaos --kill worker            one part killed, again and again
    python -m bench.chaos --ordered 50             ordered deliveries of 50 keys, in order

Exits with 1 if anything is lost, illegal or unexplained. See docs/chaos.md.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import shutil
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from bench.chaos.clock import INSTALL, libfaketime
from bench.chaos.run import Order, TookTooLong, run
from bench.chaos.storm import (
    AWAY,
    CALM,
    CLOCKS,
    DISK_FULL,
    KILLS,
    KINDS,
    ON_POSTGRESQL,
    ON_SQLITE,
    TEMPORAL_AWAY,
    WITH_STANDBY,
)
from hookfast.supervisor.interrupt import interruptible

_INTERRUPTED = 130


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.chaos",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--events", type=int, default=2000)
    parser.add_argument("--rate", type=float, default=25, help="events a second")
    parser.add_argument("--calm", type=float, default=CALM, help="most seconds between faults")
    parser.add_argument("--seed", default=secrets.token_hex(3), help="default: a new one")
    parser.add_argument("--database", choices=("sqlite", "postgresql", "standby"), default=None)
    parser.add_argument("--mode", choices=("auto", "workflow", "batch"), default="auto")
    parser.add_argument("--ordered", type=int, default=0, help="ordering keys; 0: no order")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--kill", choices=tuple(KILLS), help="one part only, again and again")
    only.add_argument("--only", choices=KINDS, help="one kind of fault only, again and again")
    parser.add_argument(
        "--away", type=float, default=AWAY, help=f'seconds of each "{TEMPORAL_AWAY}"'
    )
    parser.add_argument("--keep", type=Path, help="leave logs and database in this folder")
    given = parser.parse_args()
    kind = KILLS[given.kill] if given.kill else given.only
    order = Order(
        events=given.events,
        rate=given.rate,
        calm=given.calm,
        seed=given.seed,
        database=given.database or _database_for(kind),
        mode=given.mode,
        only=kind,
        away=given.away,
        keys=given.ordered,
    )
    elsewhere = {
        "sqlite": (*ON_POSTGRESQL, *WITH_STANDBY),
        "postgresql": (*ON_SQLITE, *WITH_STANDBY),
        "standby": (*ON_SQLITE, DISK_FULL),
    }
    if kind in elsewhere[order.database]:
        parser.error(f"no {kind} on {order.database}")
    if kind in CLOCKS and libfaketime() is None:
        parser.error(f"{kind}: {INSTALL}")
    sys.exit(asyncio.run(_run(order, given.keep)))


def _database_for(kind: str | None) -> str:
    if kind in WITH_STANDBY:
        return "standby"
    return "postgresql" if kind in ON_POSTGRESQL else "sqlite"


async def _run(order: Order, keep: Path | None) -> int:
    console = Console()
    home = Path(
        tempfile.mkdtemp(prefix="hf-chaos-")
    )  # short, because a socket's path has at most 107 bytes
    try:
        async with interruptible():
            return 0 if await run(order, home, console, keep=keep) else 1
        return _INTERRUPTED
    except TookTooLong as error:
        console.print(str(error), style="bold red")
        return 1
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()

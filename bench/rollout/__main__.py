"""A rollout forwards and back under traffic, with the code of the version before: `make rollout`.

    python -m bench.rollout                                    from and to the previous version
    python -m bench.rollout --old v0.1.0 --events 5000         another one, and more events
    python -m bench.rollout --mode batch --rate 50

Two workers and an API of the old version deliver events, some of which fail and are retried, and
people pause, resend and cancel. The workers and the API are replaced by this version's, one after
the other, and then by the old version's again. Exits with 1 if anything is lost or left standing,
or if a request is repeated and the receiver had not closed its connection. See docs/upgrading.md.
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

from bench.rollout.run import Order, run
from bench.rollout.versions import NoHistory, previous_versions, unpacked
from hookfast.supervisor.interrupt import interruptible

_INTERRUPTED = 130


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.rollout",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--old", help="default: the newest tagged version before this one")
    parser.add_argument("--events", type=int, default=2000)
    parser.add_argument("--rate", type=float, default=20, help="events a second")
    parser.add_argument("--seed", default=secrets.token_hex(3), help="default: a new one")
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="postgresql")
    parser.add_argument("--mode", choices=("auto", "workflow", "batch"), default="auto")
    parser.add_argument("--keep", type=Path, help="leave logs and database in this folder")
    given = parser.parse_args()
    try:
        old = given.old or previous_versions()[0]
        tree = unpacked(old)
    except NoHistory as error:
        parser.error(str(error))
    order = Order(
        old=old,
        tree=tree,
        events=given.events,
        rate=given.rate,
        database=given.database,
        mode=given.mode,
        seed=given.seed,
    )
    sys.exit(asyncio.run(_run(order, given.keep)))


async def _run(order: Order, keep: Path | None) -> int:
    # short, because a socket's path has at most 107 bytes
    home = Path(tempfile.mkdtemp(prefix="hf-roll-"))
    try:
        async with interruptible():
            return 0 if await run(order, home, Console(), keep=keep) else 1
        return _INTERRUPTED
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()

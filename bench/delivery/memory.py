"""The memory of `hookfast up`, by process, at the start and after 50,000 deliveries.

The deliveries come in batch emits, 5,000 at a time. The measure is the proportional set size (PSS)
of `up` and every process below it, which counts shared pages once. If the system does not report
it, it is the resident set size, which counts them more than once. PostgreSQL is not part of `up`.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import psutil

from bench.delivery.figures import BATCHES, Memory
from bench.delivery.session import Session
from bench.parts import part_name

_CHUNK = 5_000
_SETTLED_SECONDS = 5.0
_RESTED_SECONDS = 40.0  # by then `up` has stopped the workers that it had added
_PSS = re.compile(r"^Pss:\s+(\d+) kB", re.MULTILINE)


async def measure_memory(session: Session, *, deliveries: int) -> Memory:
    """Measure the memory before and after this many deliveries."""
    up = session.bench.up
    await asyncio.sleep(_SETTLED_SECONDS)
    start, measure = memory_of(up)
    most = sum(start.values())
    for done in range(0, deliveries, _CHUNK):
        session.progress.say(f"memory: {most:.0f} MiB; {done:,} of {deliveries:,} deliveries")
        await session.deliver(BATCHES, seconds=0, count=min(_CHUNK, deliveries - done))
        most = max(most, sum(memory_of(up)[0].values()))
    await asyncio.sleep(_RESTED_SECONDS)
    after, _ = memory_of(up)
    return Memory(
        database=session.database,
        mode=session.mode,
        measure=measure,
        deliveries=deliveries,
        start=start,
        after=after,
        most=max(most, sum(after.values())),
    )


def memory_of(up: psutil.Process) -> tuple[dict[str, float], str]:
    """Return MiB by the kind of process, and the measure: `PSS` or `RSS`."""
    processes = {"up": [up]}
    for child in up.children(recursive=True):
        processes.setdefault(part_name(child) or "other", []).append(child)
    for measure, read in (("PSS", _pss), ("RSS", _rss)):
        try:
            found = {name: sum(map(read, each)) / 2**20 for name, each in processes.items()}
        except (OSError, ValueError):
            continue
        return found, measure
    raise AssertionError("the system does not tell what a process takes of memory")


def _pss(process: psutil.Process) -> int:
    text = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
    found = _PSS.search(text)
    if found is None:
        raise ValueError("no Pss in smaps_rollup")
    return int(found[1]) * 1024


def _rss(process: psutil.Process) -> int:
    return int(process.memory_info().rss)

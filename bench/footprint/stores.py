"""The databases: what their servers count, spend and keep on disk for them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Self

import asyncpg
import psutil

from bench.footprint.figures import Key, Measure, Reading
from bench.parts import cpu_seconds

DATABASE, TEMPORAL_DATABASE, VISIBILITY = "Hookfast", "Temporal", "visibility"
BACKGROUND = "background"
"""The part of PostgreSQL's processes that serve no connection, and of connections that ended."""
_TABLES_OF_TEMPORAL = {
    "history_node": "history",
    "history_tree": "history",
    "executions": "executions",
    "current_executions": "executions",
}
_SIZES = """
    SELECT coalesce(pg_partition_root(c.oid), c.oid)::regclass::text AS name,
           sum(pg_total_relation_size(c.oid)) AS bytes
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema')
    GROUP BY 1
"""


class Store:
    """A database, and its server."""

    def __init__(self, name: str, connection: asyncpg.Connection[Any], server: datetime) -> None:
        self.name = name
        self.server = server
        """When the server was started, which tells servers apart."""
        self._connection = connection
        self._spent: dict[int, float] = {}

    @classmethod
    async def connect(cls, name: str, url: str) -> Self:
        """Connect to a database. Raises asyncpg's errors and OSError."""
        connection = await asyncpg.connect(url.replace("postgresql+asyncpg://", "postgresql://"))
        return cls(name, connection, await connection.fetchval("SELECT pg_postmaster_start_time()"))

    async def aclose(self) -> None:
        """Close the connection."""
        await self._connection.close()

    async def commits(self) -> float:
        """Return how many transactions were committed in this database."""
        found = await self._connection.fetchval(
            "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
        )
        return float(found)

    async def connections(self) -> int:
        """Count the connections to this database, without this one."""
        found = await self._connection.fetchval(
            "SELECT count(*) - 1 FROM pg_stat_activity WHERE datname = current_database()"
        )
        return int(found)

    async def wal(self) -> float:
        """Return how many bytes of WAL the server has written, for all of its databases."""
        found = await self._connection.fetchval("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn")
        return float(found)

    async def cpu(self) -> float:
        """Return the CPU seconds of the processes that serve this database's connections. Those
        that have ended count until they were last seen."""
        rows = await self._connection.fetch(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
        )
        for (pid,) in rows:
            with suppress(psutil.NoSuchProcess):
                self._spent[pid] = cpu_seconds(psutil.Process(pid))
        return sum(self._spent.values())

    async def sizes(self) -> Mapping[str, float]:
        """Vacuum the database, and return the bytes of its tables with their indexes, by table."""
        await self._connection.execute("VACUUM")
        rows = await self._connection.fetch(_SIZES)
        return {row["name"]: float(row["bytes"]) for row in rows}

    async def postmaster(self) -> psutil.Process | None:
        """Return the server's main process, or None if it runs on another machine."""
        pid, started = await self._connection.fetchrow(
            "SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()"
        )
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            if (
                abs(process.create_time() - started.timestamp()) < 5
                and "postgres" in process.name()
            ):
                return process.parent()
        return None


class Stores:
    """All databases of an installation."""

    def __init__(self, stores: Sequence[Store], postmasters: Mapping[datetime, psutil.Process]):
        self._stores = stores
        self._postmasters = postmasters
        self._servers: dict[datetime, list[Store]] = {}
        for one in stores:
            self._servers.setdefault(one.server, []).append(one)

    @property
    def are_local(self) -> bool:
        """Whether every server runs on this machine, so that its CPU can be measured."""
        return self._postmasters.keys() == self._servers.keys()

    @property
    def writers_of_wal(self) -> list[str]:
        """The parts under which WAL is read: one for each server, of all its databases."""
        return [" and ".join(one.name for one in group) for group in self._servers.values()]

    async def counters(self) -> Reading:
        """Read commits, WAL and CPU."""
        reading: dict[Key, float] = {}
        for one in self._stores:
            reading[Key(one.name, Measure.COMMITS)] = await one.commits()
        for part, (first, *_) in zip(self.writers_of_wal, self._servers.values(), strict=True):
            reading[Key(part, Measure.WAL)] = await first.wal()
        if self.are_local:
            for one in self._stores:
                reading[Key(one.name, Measure.CPU)] = await one.cpu()
            whole = sum(map(cpu_seconds, self._postmasters.values()))
            known = sum(reading[Key(one.name, Measure.CPU)] for one in self._stores)
            reading[Key(BACKGROUND, Measure.CPU)] = whole - known
        return reading

    async def sizes(self) -> Reading:
        """Vacuum, and read the bytes on disk by table, Temporal's in three groups."""
        reading: dict[Key, float] = {}
        for one in self._stores:
            for table, size in (await one.sizes()).items():
                if one.name == TEMPORAL_DATABASE:
                    table = _TABLES_OF_TEMPORAL.get(table, "other")
                key = Key(one.name, Measure.DISK, table)
                reading[key] = reading.get(key, 0.0) + size
        return reading

    async def connections(self) -> dict[str, int]:
        """Count the connections by database."""
        return {one.name: await one.connections() for one in self._stores}


@asynccontextmanager
async def connected(urls: Mapping[str, str]) -> AsyncIterator[Stores]:
    """Connect to these databases, by name, while the block lasts."""
    async with AsyncExitStack() as stack:
        stores = []
        postmasters: dict[datetime, psutil.Process] = {}
        for name, url in urls.items():
            store = await Store.connect(name, url)
            stack.push_async_callback(store.aclose)
            stores.append(store)
            if process := await store.postmaster():
                postmasters[store.server] = process
        yield Stores(stores, postmasters)


def size_of_file(path: Path) -> float:
    """Return the bytes of an SQLite database with its write-ahead log."""
    files = (path, path.with_name(f"{path.name}-wal"))
    return float(sum(file.stat().st_size for file in files if file.exists()))

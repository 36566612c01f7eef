"""The doorbell: wakes the relays of other processes when the outbox has new rows.

It carries no data, and a ring may get lost: the relay also reads the outbox every second, so a lost
ring costs latency, never a delivery. PostgreSQL uses LISTEN/NOTIFY. SQLite processes share a
machine, so each listener owns a UNIX datagram socket in a folder named for the database file.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import random
import secrets
import socket
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from hookfast.outage_log import DATABASE
from hookfast.storage.database.engine import Database
from hookfast.storage.database.postgresql_engine import BROKEN
from hookfast.storage.database.postgresql_servers import CONNECT_SECONDS, PostgresqlServers

_CHANNEL = "hookfast_outbox"
_RECONNECT_SECONDS = 1.0
_LISTEN_SECONDS = 30.0  # then checks that the server is still there: it may have vanished silently


class Doorbell(ABC):
    """A bell that any process may ring, and that wakes the processes that listen."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    @abstractmethod
    def ring(self) -> None:
        """Wake every listener soon. Never blocks and never fails."""

    @abstractmethod
    async def listen(self) -> None:
        """Start to listen in this process."""

    @abstractmethod
    async def close(self) -> None:
        """Stop listening, and close sockets and connections."""

    def wake(self) -> None:
        """Wake the listener of this process only."""
        self._rung.set()

    async def wait(self, timeout: float) -> None:
        """Return at the next ring, at once if it rang since the last wait, or after `timeout`
        seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._rung.wait()
        self._rung.clear()


def doorbell_for(database: Database) -> Doorbell:
    """Return the doorbell shared by all processes on this database."""
    if database.servers is not None:
        return NotifyDoorbell(database.servers)
    assert database.file is not None  # noqa: S101 - it is SQLite
    return SocketDoorbell(database.file)


class SocketDoorbell(Doorbell):
    """SQLite's doorbell: a UNIX datagram socket per listener, each of which gets one byte."""

    def __init__(self, database_file: Path) -> None:
        super().__init__()
        file = os.fsencode(os.path.realpath(database_file))
        digest = hashlib.sha256(file).hexdigest()[:16]
        # In the system's temporary folder, not the database's: a socket's path may have only 107
        # characters.
        self._folder = Path(tempfile.gettempdir()) / f"hookfast-{os.getuid()}-{digest}"
        self._sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._sender.setblocking(False)
        self._listener: socket.socket | None = None
        self._path: Path | None = None

    def ring(self) -> None:
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:
            return  # there are no listeners
        for name in names:
            path = self._folder / name
            try:
                self._sender.sendto(b"!", str(path))
            except ConnectionRefusedError:
                path.unlink(missing_ok=True)  # its process was killed
            except (BlockingIOError, FileNotFoundError):
                pass  # a full buffer already wakes the listener; a missing file means it just left

    async def listen(self) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._path = self._folder / f"{os.getpid()}-{secrets.token_hex(4)}"
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._listener.setblocking(False)
        self._listener.bind(str(self._path))
        asyncio.get_running_loop().add_reader(self._listener, self._drain, self._listener)

    async def close(self) -> None:
        self._sender.close()
        if self._listener is not None and self._path is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._path.unlink(missing_ok=True)

    def _drain(self, listener: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError):
            while listener.recv(64):
                pass
        self._rung.set()


class NotifyDoorbell(Doorbell):
    """PostgreSQL's doorbell: NOTIFY on a connection of its own, outside the emitting transaction (a
    NOTIFY inside takes a database-wide lock at commit). Rings while one is sent become one."""

    def __init__(self, servers: PostgresqlServers) -> None:
        super().__init__()
        self._servers = servers
        self._ring_requested = asyncio.Event()
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def ring(self) -> None:
        self._ring_requested.set()
        self._run_once("ring", self._ring_forever)

    async def listen(self) -> None:
        self._run_once("listen", self._listen_forever)

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _run_once(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if name not in self._tasks:
            self._tasks[name] = asyncio.create_task(work(), name=f"doorbell-{name}")

    async def _ring_forever(self) -> None:
        while True:
            try:
                async with _connection(self._servers) as connection:
                    while True:
                        await self._ring_requested.wait()
                        self._ring_requested.clear()
                        await connection.execute(f"NOTIFY {_CHANNEL}")
            except BROKEN as error:
                self._ring_requested.set()
                await self._back_off(error)

    async def _listen_forever(self) -> None:
        while True:
            try:
                async with _connection(self._servers) as connection:
                    gone = asyncio.Event()
                    connection.add_termination_listener(lambda _, gone=gone: gone.set())
                    await connection.add_listener(_CHANNEL, lambda *_: self._rung.set())
                    self._rung.set()  # rings may have been missed while disconnected
                    while not gone.is_set():
                        with contextlib.suppress(TimeoutError):
                            async with asyncio.timeout(_LISTEN_SECONDS):
                                await gone.wait()
                        await connection.execute("SELECT 1")
            except BROKEN as error:
                await self._back_off(error)

    async def _back_off(self, error: Exception) -> None:
        DATABASE.failed(
            "The doorbell lost its connection to PostgreSQL; trying again.",
            error=type(error).__name__,
        )
        # with jitter, because those of all processes end at once
        await asyncio.sleep(_RECONNECT_SECONDS * random.uniform(0.5, 1.5))  # noqa: S311


@contextlib.asynccontextmanager
async def _connection(servers: PostgresqlServers):  # type: ignore[no-untyped-def] # asyncpg has no types
    connection = await servers.connect(command_timeout=CONNECT_SECONDS)
    try:
        yield connection
    finally:
        connection.terminate()

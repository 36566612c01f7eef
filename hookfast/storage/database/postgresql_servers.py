"""The PostgreSQL servers that a database URL names, and connecting to their primary.

Each is asked in turn, with a time limit of its own: asyncpg would spend all the time on a first
server whose machine is gone. The server that answered last is asked first.

While no connection can be opened, attempts pause for up to a second. Otherwise a thousand requests
a second would each knock at a server that has no connection left, or is about to start.
"""

from __future__ import annotations

import asyncio
import random
from typing import Final
from urllib.parse import urlencode

import asyncpg

from hookfast.process import process_name
from hookfast.storage.database.availability import sqlstate
from hookfast.storage.database.postgresql_url import PostgresqlUrl, Server

CONNECT_SECONDS: Final = 10.0
"""Time to connect, for all servers of a URL together."""

TOO_MANY_CONNECTIONS: Final = "53300"
SESSION_PREFIX: Final = "hookfast "
"""Begins the `application_name` of our sessions, by which `hookfast doctor` counts processes."""

_PAUSE_FIRST, _PAUSE_LONGEST = 0.1, 1.0
CANNOT_CONNECT: Final = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # also for a server that takes no writes
    OSError,
)
"""Errors that asyncpg raises while it connects."""


class NoServer(ConnectionError):
    """No server can be used now. `sqlstate` is PostgreSQL's code of the reason, where it gave one;
    `failures` has each server's error; the message their classes, and no part of the URL but host
    and port."""

    def __init__(self, message: str, failures: tuple[tuple[Server, Exception], ...]) -> None:
        reasons = "; ".join(f"{server}: {_named(error)}" for server, error in failures)
        super().__init__(f"{message} ({reasons})")
        self.failures = failures
        states = [state for _, error in failures if (state := sqlstate(error))]
        self.sqlstate = states[0] if states else ""


class PostgresqlServers:
    """The servers of a URL. Raises Misconfigured, without any part of the URL, if it is invalid."""

    def __init__(self, url: str) -> None:
        self.url = PostgresqlUrl.parse(url)
        self._tls = f"postgresql://?{urlencode(self.url.tls.parameters)}"
        self._last: Server | None = None
        self._pause = 0.0
        self._closed_until = 0.0
        self._failures: tuple[tuple[Server, Exception], ...] = ()

    def __str__(self) -> str:
        return ", ".join(map(str, self.url.servers))

    async def connect(self, *, command_timeout: float | None) -> asyncpg.Connection:
        """Connect to the first server that accepts us and, if there are several, takes writes.

        Raises the server's error if there is one server, and NoServer if there are several, or
        within a second after a failed attempt.
        """
        begun = asyncio.get_running_loop().time()
        if self._failures and begun < self._closed_until:
            raise NoServer("the last attempt to connect failed", self._failures)
        try:
            connection = await self._connect(command_timeout)
        except CANNOT_CONNECT as error:
            self._failures = (
                error.failures if isinstance(error, NoServer) else ((self.url.servers[0], error),)
            )
            self._pause = min(max(2 * self._pause, _PAUSE_FIRST), _PAUSE_LONGEST)
            # with jitter, as all processes notice at once
            self._closed_until = begun + self._pause * random.uniform(0.5, 1.0)  # noqa: S311
            raise
        self._failures, self._pause = (), 0.0
        return connection

    async def _connect(self, command_timeout: float | None) -> asyncpg.Connection:
        servers = self.url.servers
        if len(servers) == 1:
            try:
                return await self._connect_to(servers[0], CONNECT_SECONDS, command_timeout)
            except asyncpg.TargetServerAttributeNotMatched as error:
                # SQLAlchemy does not wrap it, and callers do not expect it
                raise NoServer("no server takes writes", ((servers[0], error),)) from error
        failures: list[tuple[Server, Exception]] = []
        for server in sorted(servers, key=lambda server: server != self._last):
            share = CONNECT_SECONDS / len(servers)
            try:
                connection = await self._connect_to(server, share, command_timeout)
            except CANNOT_CONNECT as error:
                failures.append((server, error))
            else:
                self._last = server
                return connection
        raise NoServer("no server takes writes", tuple(failures))

    async def _connect_to(
        self, server: Server, seconds: float, command_timeout: float | None
    ) -> asyncpg.Connection:
        url = self.url
        return await asyncpg.connect(
            self._tls,
            host=server.host,
            port=server.port,
            user=url.user,
            password=url.password,
            passfile=url.passfile,
            database=url.database,
            ssl=url.tls.context,
            timeout=min(seconds, url.connect_seconds or seconds),
            command_timeout=command_timeout,
            statement_cache_size=url.statement_cache_size,
            target_session_attrs=url.session_attribute or "any",
            server_settings={
                **url.settings,
                "application_name": f"{SESSION_PREFIX}{process_name()}",
            },
        )


def _named(error: Exception) -> str:
    if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        return "takes no writes"
    return sqlstate(error) or type(error).__name__

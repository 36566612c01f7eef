"""The PostgreSQL servers that a database URL names, and connecting to their primary.

A URL may name several servers, as for libpq: `postgresql://user:password@db1,db2:5433/hookfast`.
Each is asked in turn, with a time limit of its own: asyncpg would spend all the time on a first
server whose machine is gone. The server that answered last is asked first.

While no connection can be opened, attempts pause for up to a second. Otherwise a thousand requests
a second would each knock at a server that has no connection left, or is about to start.
"""

from __future__ import annotations

import asyncio
import random
import re
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlencode

import asyncpg

from hookfast.process import process_name
from hookfast.storage.database.availability import sqlstate

CONNECT_SECONDS: Final = 10.0
"""Time to connect, for all servers of a URL together."""

TOO_MANY_CONNECTIONS: Final = "53300"
SESSION_PREFIX: Final = "hookfast "
"""Begins the `application_name` of our sessions, by which `hookfast doctor` counts processes."""

_PAUSE_FIRST, _PAUSE_LONGEST = 0.1, 1.0
_URL: Final = re.compile(
    r"(?:postgresql|postgres)(?:\+asyncpg)?://"
    r"(?:(?P<user>[^:/@]*)(?::(?P<password>[^@]*))?@)?"
    r"(?P<servers>[^/?]*)(?:/(?P<database>[^?]*))?(?:\?(?P<options>.*))?"
)
_SERVER: Final = re.compile(r"(?:\[(?P<ipv6>[^\]]+)\]|(?P<name>[^:\[\]]*))(?::(?P<port>\d*))?")
_WRITABLE: Final = ("read-write", "primary")
_UNUSABLE: Final = (
    asyncpg.PostgresError,
    asyncpg.TargetServerAttributeNotMatched,
    OSError,
)
_CACHE_SIZE: Final = "prepared_statement_cache_size"


class NoServer(ConnectionError):
    """No server can be used now. `sqlstate` is PostgreSQL's code of the reason, where it gave one;
    the message has the class of each server's error, and no part of the URL but host and port."""

    def __init__(self, message: str, state: str) -> None:
        super().__init__(message)
        self.sqlstate = state


@dataclass(frozen=True, slots=True)
class Server:
    """A host name, an address or the folder of a socket, and a port. None: asyncpg's default, which
    is a socket or `localhost`, and 5432."""

    host: str | None
    port: int | None

    def __str__(self) -> str:
        host = self.host or "localhost"
        port = "" if host.startswith("/") else f":{self.port or 5432}"
        return f"[{host}]{port}" if ":" in host else f"{host}{port}"


class PostgresqlServers:
    """The servers of a URL. Raises ValueError, without any part of the URL, if it is invalid."""

    def __init__(self, url: str) -> None:
        match = _URL.fullmatch(url)
        if match is None or "@" in f"{match['servers']}{match['database']}":
            # with "@", a part of the password would be taken for the host or the database
            raise ValueError("the database URL does not have the form postgresql://…")
        self.user = _unquoted(match["user"])
        self._password = _unquoted(match["password"])
        self.database = _unquoted(match["database"])
        options = parse_qsl(match["options"] or "")
        hosts = [value for name, value in options if name == "host"]
        ports = ",".join(value for name, value in options if name == "port")
        given = ",".join(hosts) if hosts and not match["servers"] else match["servers"]
        self.servers = _servers(given, ports)
        rest = {name: value for name, value in options if name not in ("host", "port")}
        if "ssl" in rest:  # asyncpg's own name for it
            rest["sslmode"] = rest.pop("ssl")
        self.statement_cache_size = int(rest.pop(_CACHE_SIZE, "100"))
        self._attribute = self._session_attribute(rest.pop("target_session_attrs", None))
        self._dsn = f"postgresql://?{urlencode(rest)}" if rest else None
        self._last: Server | None = None
        self._pause = 0.0
        self._closed_until = 0.0
        self._failure: tuple[str, str] | None = None  # its name and SQLSTATE

    def __str__(self) -> str:
        return ", ".join(map(str, self.servers))

    async def connect(self, *, command_timeout: float | None) -> asyncpg.Connection:
        """Connect to the first server that accepts us and, if there are several, takes writes.

        Raises the server's error if there is one server, and NoServer if there are several, or
        within a second after a failed attempt.
        """
        begun = asyncio.get_running_loop().time()
        if self._failure is not None and begun < self._closed_until:
            name, state = self._failure
            raise NoServer(f"the last attempt to connect failed ({name})", state)
        try:
            connection = await self._connect(command_timeout)
        except (asyncpg.PostgresError, OSError) as error:
            self._failure = _named(error), sqlstate(error)
            self._pause = min(max(2 * self._pause, _PAUSE_FIRST), _PAUSE_LONGEST)
            # with jitter, as all processes notice at once
            self._closed_until = begun + self._pause * random.uniform(0.5, 1.0)  # noqa: S311
            raise
        self._failure, self._pause = None, 0.0
        return connection

    async def _connect(self, command_timeout: float | None) -> asyncpg.Connection:
        if len(self.servers) == 1:
            try:
                return await self._connect_to(self.servers[0], CONNECT_SECONDS, command_timeout)
            except asyncpg.TargetServerAttributeNotMatched as error:
                # SQLAlchemy does not wrap it, and callers do not expect it
                raise NoServer(f"{self.servers[0]} takes no writes", "") from error
        failures: list[tuple[Server, Exception]] = []
        for server in sorted(self.servers, key=lambda server: server != self._last):
            share = CONNECT_SECONDS / len(self.servers)
            try:
                connection = await self._connect_to(server, share, command_timeout)
            except _UNUSABLE as error:
                failures.append((server, error))
            else:
                self._last = server
                return connection
        states = [state for _, error in failures if (state := sqlstate(error))]
        reasons = "; ".join(f"{server}: {_named(error)}" for server, error in failures)
        raise NoServer(f"no server takes writes ({reasons})", states[0] if states else "")

    async def _connect_to(
        self, server: Server, seconds: float, command_timeout: float | None
    ) -> asyncpg.Connection:
        return await asyncpg.connect(
            self._dsn,
            host=server.host,
            port=server.port,
            user=self.user,
            password=self._password,
            database=self.database,
            timeout=seconds,
            command_timeout=command_timeout,
            target_session_attrs=self._attribute,
            server_settings={"application_name": f"{SESSION_PREFIX}{process_name()}"},
        )

    def _session_attribute(self, given: str | None) -> Any:
        if given is None or (given == "any" and len(self.servers) == 1):
            given = "read-write" if len(self.servers) > 1 else None
        elif given not in _WRITABLE:
            raise ValueError("target_session_attrs must be read-write or primary")
        return given


def _servers(given: str, ports: str) -> tuple[Server, ...]:
    each_port = ports.split(",") if ports else []
    servers = []
    for number, one in enumerate(given.split(",")):
        match = _SERVER.fullmatch(one)
        if match is None:
            raise ValueError("the database URL has an invalid host or port")
        port = match["port"] or (each_port[min(number, len(each_port) - 1)] if each_port else None)
        if port is not None and not 0 < int(port) < 65_536:
            raise ValueError("the database URL has a port that is not 1 to 65535")
        host = match["ipv6"] or unquote(match["name"]) or None
        if host is not None and not host.startswith("/"):
            host.encode("idna")  # UnicodeError, a ValueError, for an invalid name
        servers.append(Server(host, None if port is None else int(port)))
    if len(servers) > 1 and any(server.host is None for server in servers):
        raise ValueError("the database URL has an empty host among several")
    return tuple(servers)


def _unquoted(text: str | None) -> str | None:
    return unquote(text) if text else None


def _named(error: Exception) -> str:
    if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        return "takes no writes"
    return sqlstate(error) or type(error).__name__

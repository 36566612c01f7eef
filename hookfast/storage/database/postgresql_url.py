"""Reads a PostgreSQL URL: servers, login, and parameters (`postgresql_parameters`).

The form is libpq's, `postgresql://user:password@db1,db2:5433/hookfast?sslmode=verify-full`, with
its environment variables (`PGHOST`, `PGPASSWORD`, …) for what is missing. Everything that can be
checked without a server is checked here; TLS by `postgresql_tls`.
"""

from __future__ import annotations

import getpass
import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, cast
from urllib.parse import unquote

from hookfast.settings.database_url import check_quoting, unreadable
from hookfast.storage.database.postgresql_parameters import (
    check_file,
    one_of,
    refusal,
    sort_out,
)
from hookfast.storage.database.postgresql_tls import Tls

_URL: Final = re.compile(
    r"[a-z+]+://"
    r"(?:(?P<user>[^:/?@]*)(?::(?P<password>[^/?@]*))?@)?"
    r"(?P<servers>[^/?@]*)(?:/(?P<database>[^?@]*))?(?:\?(?P<parameters>[^@]*))?"
)
_SERVER: Final = re.compile(r"(?:\[(?P<ipv6>[^\[\]]+)\]|(?P<name>[^:\[\]]*))(?::(?P<port>[^:]*))?")
_HOST: Final = re.compile(rb"[A-Za-z0-9_.-]+")
_ENVIRONMENT: Final = {
    "host": "PGHOST",
    "port": "PGPORT",
    "dbname": "PGDATABASE",
    "user": "PGUSER",
}
"""libpq's variables for parameters that are read here; asyncpg reads those of the password."""

SessionAttribute = Literal["read-write", "primary"]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresqlUrl:
    """What a URL says. `settings` are the server's. `passfile` is for asyncpg to read.
    `connect_seconds` is None if the URL sets no limit."""

    servers: tuple[Server, ...]
    user: str
    password: str | None = field(repr=False)
    passfile: str | None
    database: str
    connect_seconds: float | None
    session_attribute: SessionAttribute | None
    statement_cache_size: int
    tls: Tls
    settings: Mapping[str, str] = field(repr=False)

    @classmethod
    def parse(cls, url: str) -> PostgresqlUrl:
        """Read a URL. Raises Misconfigured, which quotes no part of it, if it is invalid."""
        check_quoting(url)
        if re.search(r"\s", url):
            raise unreadable("it has a blank; remove it, or write it as %20")
        match = _URL.fullmatch(url)
        if match is None:
            raise unreadable(
                "it does not have the form postgresql://user:password@host:5432/database; write "
                "every character of user and password that is not a letter or digit as %XX"
            )
        used, settings = sort_out(_parameters(match["parameters"] or ""))
        inherited = {
            name: value
            for name, variable in _ENVIRONMENT.items()
            if (value := os.environ.get(variable))
        }
        # a parameter is stronger than the part before it, as for libpq
        servers = _servers(
            used.get("host") or match["servers"] or inherited.get("host", ""),
            used.get("port") or inherited.get("port", ""),
            quoted="host" not in used,
        )
        user = used.get("user") or _decoded(match["user"]) or inherited.get("user")
        user = user or _system_user()
        database = used.get("dbname") or _decoded(match["database"]) or inherited.get("dbname")
        password = used.get("password") or _decoded(match["password"])
        passfile = used.get("passfile")
        if passfile is not None:
            check_file("passfile", lambda: open(passfile, "rb").close())
        return cls(
            servers=servers,
            user=user,
            password=password or None,
            passfile=passfile,
            database=database or user,
            connect_seconds=_connect_seconds(used.get("connect_timeout")),
            session_attribute=_session_attribute(
                used.get("target_session_attrs"), several=len(servers) > 1
            ),
            statement_cache_size=_statement_cache_size(
                used.get("prepared_statement_cache_size", "100")
            ),
            tls=Tls.of(used),
            settings=settings | ({"options": used["options"]} if "options" in used else {}),
        )


def _parameters(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in filter(None, text.split("&")):
        name, equals, value = (_decoded(part) for part in one.partition("="))
        if not equals:
            # not named: it may be the rest of a password with "&"
            raise unreadable("it has a parameter without a value; write name=value, and & as %26")
        if name in found and name != "host":
            raise refusal(name, "it is there twice; remove one of them")
        # several hosts, in SQLAlchemy's form
        found[name] = f"{found[name]},{value}" if name in found else value
    return found


def _decoded(text: str | None) -> str:
    try:
        return unquote(text or "", errors="strict")  # "+" stays, as for libpq
    except UnicodeDecodeError:
        raise unreadable("what its %XX stand for is not UTF-8") from None


def _servers(given: str, ports: str, *, quoted: bool) -> tuple[Server, ...]:
    names = given.split(",")
    each_port = ports.split(",") if ports else [""]
    if len(each_port) not in (1, len(names)):
        raise refusal("port", "there must be one for all hosts, or one for each")
    each_port *= len(names) if len(each_port) == 1 else 1
    servers = tuple(
        _server(name, port, quoted=quoted) for name, port in zip(names, each_port, strict=True)
    )
    if len(servers) > 1 and any(server.host is None for server in servers):
        raise unreadable("it has an empty host among several")
    return servers


def _server(given: str, port: str, *, quoted: bool) -> Server:
    if not quoted and _is_ipv6(given):  # as a parameter it needs no brackets
        return Server(given, _port(port))
    match = _SERVER.fullmatch(given)
    if match is None:
        raise unreadable("it has an invalid host or port")
    host = match["ipv6"] or match["name"]
    host = _decoded(host) if quoted else host
    if match["ipv6"] is not None and not _is_ipv6(host):
        raise unreadable("it has brackets around a host that is no IPv6 address")
    if host and not host.startswith("/") and match["ipv6"] is None:
        _check_host(host)
    return Server(host or None, _port(match["port"] or port))


def _is_ipv6(host: str) -> bool:
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        return False
    return True


def _check_host(host: str) -> None:
    try:
        encoded = host.encode("idna")
    except UnicodeError:
        encoded = b""
    if not _HOST.fullmatch(encoded):
        raise unreadable("it has an invalid host")


def _port(given: str) -> int | None:
    if not given:
        return None
    if not (given.isascii() and given.isdecimal() and len(given) <= 5 and 0 < int(given) < 65_536):
        raise unreadable("it has a port that is not 1 to 65535")
    return int(given)


def _system_user() -> str:
    """Return the name of the user of this process, which libpq logs in as if none is named."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # it has no name, as in many containers
        raise unreadable(
            "it has no user; write postgresql://user:password@host:5432/database"
        ) from None


def _connect_seconds(given: str | None) -> float | None:
    if given is None:
        return None
    if not re.fullmatch(r"-?[0-9]{1,9}", given):
        raise refusal("connect_timeout", "it must be a number of seconds")
    return float(given) if int(given) > 0 else None  # 0: no limit, as for libpq


def _session_attribute(given: str | None, *, several: bool) -> SessionAttribute | None:
    if given is None or (given == "any" and not several):
        return "read-write" if several else None
    return cast(
        "SessionAttribute", one_of("target_session_attrs", given, ("read-write", "primary"))
    )


def _statement_cache_size(given: str) -> int:
    if not re.fullmatch("[0-9]{1,6}", given):
        raise refusal("prepared_statement_cache_size", "it must be a number, 0 or more")
    return int(given)

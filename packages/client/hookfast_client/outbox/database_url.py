"""Reads the URL of the relay's database, which may have been written for libpq.

asyncpg knows some of libpq's parameters and sends all others to the server as settings, which then
refuses the login. It neither verifies the server with `sslrootcert=system`, nor distinguishes a
file that it cannot load from a network that is away.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlencode

_NO_EFFECT = frozenset(
    {
        *("application_name", "fallback_application_name", "load_balance_hosts", "sslcompression"),
        *("keepalives", "keepalives_count", "keepalives_idle", "keepalives_interval"),
        "tcp_user_timeout",
    }
)
"""Parameters of libpq that are about the connection or its name, for which the relay has its own
limits."""
_ONLY = {
    "channel_binding": ("disable", "prefer"),
    "client_encoding": ("utf8", "utf-8", "auto"),
    "gssencmode": ("disable", "prefer"),
    "sslsni": ("1",),
}
"""Parameters with the values of which asyncpg does what they ask for anyway."""
_SECONDS = re.compile("[0-9]{1,4}")


class InvalidUrl(ValueError):
    """The URL cannot be used. The message, the rest of a sentence about the database, names a
    parameter and nothing else of the URL."""


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    """A URL for asyncpg, with the time for connecting if it limits that, and with a TLS context if
    the system's authorities are to verify the server."""

    url: str = field(repr=False)
    connect_seconds: float | None
    tls: ssl.SSLContext | None

    @classmethod
    def parse(cls, text: str) -> DatabaseUrl:
        """Read a URL of PostgreSQL, also with SQLAlchemy's driver (`postgresql+psycopg://`). Raises
        InvalidUrl."""
        scheme, colon, rest = text.partition("://")
        scheme = scheme.partition("+")[0]
        if not colon or scheme not in ("postgresql", "postgres"):
            raise InvalidUrl("must be PostgreSQL: its URL begins with postgresql://")
        before, _, query = rest.partition("?")
        kept: dict[str, str] = {}
        try:
            given = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
        except ValueError:
            raise InvalidUrl("URL has a parameter without a value; write name=value") from None
        for name, value in given:
            if name in _ONLY and value.lower() not in _ONLY[name]:
                raise InvalidUrl(f"URL has `{name}` with a value that asyncpg cannot do; remove it")
            if value and name not in _NO_EFFECT and name not in _ONLY:
                kept[name] = value
        if kept.get("ssl") == "true":  # for libpq the same
            kept["sslmode"] = kept.pop("ssl")
        if kept.get("sslmode") == "true":
            kept["sslmode"] = "require"
        seconds = _connect_seconds(kept.pop("connect_timeout", ""))
        tls = _system_tls(kept)
        _check_files(kept)
        verifies = kept.get("sslmode", "").startswith("verify") and "sslrootcert" not in kept
        if verifies and not os.path.exists(os.path.expanduser("~/.postgresql/root.crt")):
            raise InvalidUrl(
                "URL has `sslmode`, which needs sslrootcert=FILE, or sslrootcert=system"
            )
        return cls(f"{scheme}://{before}{'?' if kept else ''}{urlencode(kept)}", seconds, tls)


def _connect_seconds(text: str) -> float | None:
    if text and not _SECONDS.fullmatch(text):
        raise InvalidUrl("URL has `connect_timeout`, which must be a number of seconds")
    return float(text or 0) or None


def _system_tls(parameters: dict[str, str]) -> ssl.SSLContext | None:
    if parameters.get("sslrootcert") != "system":
        return None
    if parameters.get("sslmode", "verify-full") != "verify-full":
        raise InvalidUrl("URL has `sslrootcert=system`, with which sslmode must be verify-full")
    del parameters["sslrootcert"]
    parameters.pop("sslmode", None)
    return ssl.create_default_context()


def _check_files(parameters: dict[str, str]) -> None:
    def check(name: str, load: Callable[[str], object]) -> None:
        if name in parameters:
            try:
                load(parameters[name])
            except (OSError, ValueError):  # ssl.SSLError is an OSError
                raise InvalidUrl(f"URL has `{name}`, whose file cannot be loaded") from None

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    check("sslrootcert", context.load_verify_locations)
    check("sslcrl", context.load_verify_locations)
    for name in ("sslcert", "sslkey", "passfile"):
        check(name, lambda path: open(path, "rb").close())

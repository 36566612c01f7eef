"""Every parameter of a PostgreSQL URL, and what Hookfast does with it.

Each parameter of libpq is used, has no effect here, or is refused with what to do instead. Those
that other drivers and hosting providers append are refused too, because a parameter without effect
may be meant to protect the connection. Any other name is a setting of the server, which
refuses those that it does not know or that a session may not have.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from hookfast.errors import Misconfigured
from hookfast.settings.database_url import VARIABLE

USED: Final = frozenset(
    {
        "connect_timeout",
        "dbname",
        "host",
        "options",
        "passfile",
        "password",
        "port",
        "prepared_statement_cache_size",  # SQLAlchemy's
        "ssl_max_protocol_version",
        "ssl_min_protocol_version",
        "sslcert",
        "sslcrl",
        "sslkey",
        "sslmode",
        "sslnegotiation",
        "sslpassword",
        "sslrootcert",
        "target_session_attrs",
        "user",
    }
)
ALIASES: Final = {"database": "dbname", "ssl": "sslmode"}
"""Names that asyncpg and SQLAlchemy have for parameters of libpq."""


@dataclass(frozen=True, slots=True)
class NoEffect:
    """A parameter that changes nothing here, with the values of which this is true (none: all).
    Other values are refused with `todo`."""

    why: str
    values: tuple[str, ...] = ()
    todo: str = ""


_WAITS: Final = NoEffect("Hookfast itself limits every wait")
NO_EFFECT: Final[Mapping[str, NoEffect]] = {
    "application_name": NoEffect("sessions are named `hookfast pid@host`"),
    "fallback_application_name": NoEffect("sessions are named `hookfast pid@host`"),
    "channel_binding": NoEffect(
        "the driver never binds",
        ("disable", "prefer"),
        "the driver cannot bind the login to the TLS channel; remove it, and use "
        "sslmode=verify-full, which makes sure of the server by its certificate",
    ),
    "client_encoding": NoEffect(
        "text is always sent in UTF-8", ("utf8", "UTF8", "utf-8", "UTF-8", "auto"), "remove it"
    ),
    "gssdelegation": NoEffect("there is no GSSAPI", ("0",), "the driver has no GSSAPI; remove it"),
    "gssencmode": NoEffect(
        "there is no GSSAPI",
        ("disable", "prefer"),
        "the driver cannot encrypt with GSSAPI; remove it, and use sslmode=verify-full",
    ),
    "keepalives": _WAITS,
    "keepalives_count": _WAITS,
    "keepalives_idle": _WAITS,
    "keepalives_interval": _WAITS,
    "load_balance_hosts": NoEffect("the server that answered last is asked first"),
    "max_protocol_version": NoEffect(
        "the driver speaks 3.0", ("3.0", "3.2", "latest"), "the driver speaks 3.0; remove it"
    ),
    "min_protocol_version": NoEffect(
        "the driver speaks 3.0", ("3.0",), "the driver speaks 3.0 only; remove it"
    ),
    "sslcertmode": NoEffect(
        "sslcert is sent when the server asks for it",
        ("allow",),
        "a certificate is sent if sslcert names one and the server asks for it; remove sslcertmode",
    ),
    "sslcompression": NoEffect("TLS is never compressed"),
    "sslsni": NoEffect(
        "the host name is always sent", ("1",), "the name is always sent; remove it"
    ),
    "tcp_user_timeout": _WAITS,
    "uselibpqcompat": NoEffect("sslmode always means what it means to libpq"),
}

_GSSAPI: Final = "the driver has no GSSAPI; use a password or a client certificate"
_OAUTH: Final = "the driver has no OAuth; use a password or a client certificate"
_POOL: Final = "Hookfast sizes its own pool (21 connections a process at most); remove it"
_POOLER: Final = (
    "Hookfast needs sessions of its own: connect to PostgreSQL directly or to a pooler in session "
    "mode (often another port), and remove it"
)
_SCHEMA: Final = "write search_path=NAME for a schema other than public, and remove it"
_VERIFY: Final = "use sslmode=verify-full, which makes sure of the server, and remove it"
REFUSED: Final[Mapping[str, str]] = {
    "gsslib": _GSSAPI,
    "hostaddr": "write the address as the host, or let the host's name lead to it",
    "krbsrvname": _GSSAPI,
    "oauth_ca_file": _OAUTH,
    "oauth_client_id": _OAUTH,
    "oauth_client_secret": _OAUTH,
    "oauth_issuer": _OAUTH,
    "oauth_scope": _OAUTH,
    "replication": "Hookfast does not replicate; remove it",
    "require_auth": _VERIFY,
    "requirepeer": "the driver cannot check the peer of a socket; remove it",
    "requiressl": "write sslmode=require",
    "scram_client_key": "write the password",
    "scram_server_key": "write the password",
    "service": "write the parameters of the service into the URL",
    "servicefile": "write the parameters of the service into the URL",
    "sslcrldir": "write sslcrl=FILE",
    "sslkeylogfile": "it would let others decrypt the connection; remove it",
    # of other drivers and of hosting providers
    "binary_parameters": _POOLER,
    "connection_limit": _POOL,
    "currentSchema": _SCHEMA,
    "max_overflow": _POOL,
    "pgbouncer": _POOLER,
    "pool_max_conns": _POOL,
    "pool_pre_ping": _POOL,
    "pool_recycle": _POOL,
    "pool_size": _POOL,
    "pool_timeout": _POOL,
    "prepareThreshold": _POOLER,
    "prepare_threshold": _POOLER,
    "prepared_statements": _POOLER,
    "schema": _SCHEMA,
    "sslaccept": "write sslmode=verify-full to check the server's certificate, or sslmode=require",
    "statement_cache_size": "write prepared_statement_cache_size",
    "supa": _POOLER,
}

_BOOLEANS: Final = ("1", "on", "yes", "0", "off", "no", "false", "False", "True")
"""Values of `ssl` that other drivers have, besides `true`, which libpq knows too."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*(?:\.[A-Za-z_][A-Za-z0-9_$]*)*")


def sort_out(parameters: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the parameters that Hookfast uses, and the server's settings. Raises Misconfigured,
    which names the parameter and never its value, for one that is refused."""
    used: dict[str, str] = {}
    settings: dict[str, str] = {}
    for given, value in parameters.items():
        name = ALIASES.get(given, given)
        if given == "ssl" and value in _BOOLEANS:
            raise refusal(given, "write sslmode=require, or sslmode=disable for no TLS")
        if name in used:
            raise refusal(given, "another name of it is there too; remove one of them")
        if name in USED:
            if value:  # an empty one is a missing one, as for libpq
                used[name] = value
        elif name in NO_EFFECT:
            _check_value(name, value)
        elif name in REFUSED:
            raise refusal(name, REFUSED[name])
        else:
            _check_setting(name)
            settings[name] = value
    return used, settings


def refusal(name: str, todo: str) -> Misconfigured:
    """Return the error of a parameter that cannot be used as it is."""
    shown = f"`{name}`" if _NAME.fullmatch(name) else "a name that is no name of a parameter"
    return Misconfigured(f"{VARIABLE} has {shown}: {todo}.")


def one_of(name: str, value: str, values: tuple[str, ...]) -> str:
    """Return the value if it is one of these. Raises Misconfigured."""
    if value not in values:
        raise refusal(name, f"it must be {', '.join(values[:-1])} or {values[-1]}")
    return value


def check_file(name: str, load: Callable[[], object]) -> None:
    """Load the file that a parameter names. Raises Misconfigured if that does not work; without the
    path, because the value may be a key that was written in its place."""
    try:
        load()
    except ssl.SSLError as error:
        reason = (error.reason or "it is not PEM").lower().replace("_", " ")
        raise refusal(name, f"its file cannot be loaded ({reason}); replace it") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise refusal(name, f"its file cannot be read ({reason}); correct the path") from None


def _check_value(name: str, value: str) -> None:
    found = NO_EFFECT[name]
    if value and found.values and value not in found.values:
        raise refusal(name, found.todo)


def _check_setting(name: str) -> None:
    """Refuse what may be a misspelt parameter: the server would read it after the password was
    sent over a connection without the TLS that was meant."""
    lower = name.lower()
    close = get_close_matches(lower, USED | REFUSED.keys(), n=1, cutoff=0.8)
    meant = f", or write {close[0]}" if USED.intersection(close) else ""
    if close or "ssl" in lower or "tls" in lower or not _NAME.fullmatch(name):
        raise refusal(name, f"it is neither a parameter of libpq nor a setting; remove it{meant}")

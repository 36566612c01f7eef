"""Explains the error that a database raised. A server that answered is never "unreachable": what it
said has its own words, by its SQLSTATE (PostgreSQL's documentation, appendix A)."""

from __future__ import annotations

import re
import socket
import sqlite3
import ssl
from pathlib import Path
from typing import Final

import asyncpg
from sqlalchemy.dialects.postgresql.asyncpg import AsyncAdapt_asyncpg_dbapi

from hookfast.settings.database_url import VARIABLE
from hookfast.storage.database.availability import is_away, sqlstate
from hookfast.storage.database.engine import Database
from hookfast.storage.database.obstacle import Obstacle, identifier
from hookfast.storage.database.postgresql_servers import NoServer, PostgresqlServers
from hookfast.storage.database.postgresql_tls import OPTIONAL
from hookfast.storage.database.postgresql_url import PostgresqlUrl

_SEE_LOG: Final = "See the log of the server, and of a proxy or pooler before it."
_OF_SETTINGS: Final = ("22023", "42501", "42601", "42704", "55P02", "08P01")
"""Answers to a login with a setting that is unknown, invalid or not allowed; the last one is
PgBouncer's."""
_CURABLE: Final = ("42501",)  # insufficient_privilege
_CURABLE_CODES: Final = (
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
)
_WRONG_NAME: Final = (62, 64)  # OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH, …_IP_ADDRESS_MISMATCH
_OUT_OF_DATE: Final = (9, 10)  # X509_V_ERR_CERT_NOT_YET_VALID, X509_V_ERR_CERT_HAS_EXPIRED
_SETTING: Final = re.compile(r"(?:-c\s*|--)([A-Za-z_][\w.-]*)\s*=")  # in libpq's `options`


def explain(database: Database, error: BaseException) -> Obstacle:
    """Explain why a database cannot be used."""
    if database.servers is not None:
        return explain_server(database.servers, error)
    assert database.file is not None  # noqa: S101 - a database has servers or a file
    return explain_file(database.file, error)


def is_curable(error: BaseException) -> bool:
    """Whether an error is for the operator to cure, and not a fault in a statement of ours."""
    cause = getattr(error, "orig", None) or error
    if isinstance(cause, sqlite3.Error):
        return getattr(cause, "sqlite_errorcode", 0) & 0xFF in _CURABLE_CODES
    return is_away(error) or sqlstate(error) in _CURABLE


def explain_file(file: Path, error: BaseException) -> Obstacle:
    """Explain why a SQLite file cannot be used."""
    cause = getattr(error, "orig", None) or error
    return unusable_file(file, getattr(cause, "strerror", None) or str(cause))


def unusable_file(file: Path, why: str) -> Obstacle:
    """Return the obstacle that a SQLite file is."""
    return Obstacle(
        f"{file} cannot be used: {why}.",
        "Check that it is Hookfast's SQLite file, on a disk with free space, and that this user "
        "may write to it and its folder; restore it from a backup if it is damaged.",
    )


def explain_server(servers: PostgresqlServers, error: BaseException) -> Obstacle:
    """Explain why PostgreSQL cannot be used."""
    cause = _cause(error)
    url = servers.url
    if getattr(error, "statement", None) and sqlstate(cause) in _CURABLE:
        return Obstacle(
            f"PostgreSQL at {servers} does not let the user {url.user} do what this needs "
            f"({sqlstate(cause)}).",
            "Let this user own Hookfast's tables, or do it as their owner.",
        )
    if not isinstance(cause, NoServer):
        saw, todo = _explain(url, cause)
        return Obstacle(f"PostgreSQL at {servers} {saw}.", todo)
    reasons = [(server, *_explain(url, failure)) for server, failure in cause.failures]
    if len(reasons) == 1:
        server, saw, todo = reasons[0]
        return Obstacle(f"PostgreSQL at {server} {saw}.", todo)
    listed = "; ".join(f"{server} {saw}" for server, saw, _ in reasons)
    return Obstacle(
        f"No server of PostgreSQL can be used: {listed}.",
        " ".join(dict.fromkeys(todo for _, _, todo in reasons)),
    )


def _cause(error: BaseException) -> BaseException:
    """Return the error of the driver or the socket, which SQLAlchemy wraps once or twice."""
    cause = getattr(error, "orig", None) or error
    if isinstance(cause, AsyncAdapt_asyncpg_dbapi.Error):
        return cause.__cause__ or cause
    return cause


def _explain(url: PostgresqlUrl, error: BaseException) -> tuple[str, str]:
    """Return what a server did, as the rest of a sentence, and what to do."""
    if state := sqlstate(error):
        return _explain_answer(url, error, state)
    match error:
        case asyncpg.TargetServerAttributeNotMatched():
            return (
                "takes no writes",
                f"Name the primary in {VARIABLE}; after a failover, wait until it is up.",
            )
        case ssl.SSLCertVerificationError():
            return _explain_certificate(error)
        case ssl.SSLError():
            reason = (error.reason or "no reason given").lower().replace("_", " ")
            return (
                f"ended the TLS handshake ({reason})",
                "Check sslmode, sslnegotiation, sslcert and the TLS versions on both sides.",
            )
        case asyncpg.InterfaceError() | asyncpg.InternalClientError() if (
            "authentication" in str(error).lower()
        ):
            return (
                "asks for a login that the driver does not have",
                "Let this user log in by scram-sha-256, md5 or a client certificate (pg_hba.conf).",
            )
        case asyncpg.InterfaceError() | asyncpg.InternalClientError():
            return (
                f"does not speak PostgreSQL's protocol ({type(error).__name__})",
                f"Check that host and port in {VARIABLE} are PostgreSQL's. {_SEE_LOG}",
            )
        case OSError():
            return _explain_socket(url, error)
        case _:
            return "answered with an error", _SEE_LOG


def _explain_answer(url: PostgresqlUrl, error: BaseException, state: str) -> tuple[str, str]:
    if state in _OF_SETTINGS and (names := _settings(url, error, state)):
        listed = ", ".join(f"`{name}`" for name in names)
        todo = "Correct or remove it."
        if state == "08P01":
            role = identifier(url.user)
            todo = f"A pooler does not pass it on: remove it, and run ALTER ROLE {role} SET …;"
        return f"does not accept a setting of {VARIABLE}: {listed} ({state})", todo
    match state:
        case "28P01" if url.password is None:
            saw = f"wants a password of the user {url.user}"
            todo = f"Add it to {VARIABLE}."
        case "28P01":
            saw = f"refuses the password of the user {url.user}"
            todo = (
                f"Correct user and password in {VARIABLE}; write every character of the password "
                "that is not a letter or digit as %XX."
            )
        case _ if state.startswith("28"):
            saw = f"denies access to the user {url.user}"
            todo = (
                f"Correct the user in {VARIABLE}, create the role (CREATE ROLE "
                f"{identifier(url.user)} LOGIN), or allow its logins from here, with this sslmode, "
                "in the server's pg_hba.conf."
            )
        case "3D000":
            saw = f"has no database {url.database}"
            todo = (
                f"Create it (CREATE DATABASE {identifier(url.database)} ENCODING 'UTF8' TEMPLATE "
                f"template0), or correct {VARIABLE}."
            )
        case "42501":
            saw = f"does not let the user {url.user} into the database {url.database}"
            database, role = identifier(url.database), identifier(url.user)
            todo = f"Run there: GRANT CONNECT ON DATABASE {database} TO {role};"
        case "53300":
            saw = "has no connection left"
            todo = (
                "Raise max_connections, or a CONNECTION LIMIT of the role or database, or run "
                "fewer processes: each opens up to 21, and a Temporal server on it up to 120."
            )
        case "57P03":
            saw = "is starting, stopping or recovering"
            todo = "Try again in a moment; if it stays so, see its log."
        case "55000":
            saw = f"accepts no connections to the database {url.database}"
            todo = f"Name another one in {VARIABLE}, or let it accept them (ALLOW_CONNECTIONS)."
        case "08P01":
            saw = "rejects the login"
            todo = _SEE_LOG
        case _ if state.startswith("08"):
            saw = "closed the connection"
            todo = f"Check that host and port in {VARIABLE} are PostgreSQL's. {_SEE_LOG}"
        case "25006":
            saw = "takes no writes"
            todo = f"Name the primary in {VARIABLE}; after a failover, wait until it is up."
        case _ if state.startswith("53"):
            saw = "is short of memory, disk or another resource"
            todo = "Free some: its log says which."
        case "26000" | "42P05":  # a prepared statement that another connection has, or has not
            saw = "shares its sessions between connections, as a pooler in transaction mode does"
            todo = (
                f"In {VARIABLE}, name PostgreSQL itself or a pooler in session mode (often another "
                "port)."
            )
        case "57014":
            saw = "cancelled a statement"
            todo = f"Raise statement_timeout in {VARIABLE}, or of the role; 0 is no limit."
        case _ if state.startswith("57"):
            saw = "ended the session"
            todo = "Try again in a moment; if it stays so, see its log."
        case _:
            saw = "answered with an error"
            todo = _SEE_LOG
    return f"{saw} ({state})", todo


def _settings(url: PostgresqlUrl, error: BaseException, state: str) -> list[str]:
    """Return the settings of the URL that the server's answer names. If it names none, all of them;
    but nothing for an error that can have other causes."""
    names = [*url.settings, *_SETTING.findall(url.settings.get("options", ""))]
    words = set(re.findall(r"[\w.]+", str(error).lower()))
    named = [name for name in names if name.lower().replace("-", "_") in words]
    return named or ([] if state in ("42501", "08P01") else list(url.settings))


def _explain_certificate(error: ssl.SSLCertVerificationError) -> tuple[str, str]:
    if error.verify_code in _WRONG_NAME:
        todo = (
            f"Use a name of its certificate as the host in {VARIABLE}, or sslmode=verify-ca, which "
            "does not compare names."
        )
    elif error.verify_code in _OUT_OF_DATE:
        todo = "Renew its certificate, or correct the clock of this machine."
    else:
        todo = (
            "Add sslrootcert=FILE with the certificate of the authority that issued it "
            "(sslrootcert=system with sslmode=verify-full for a public one)."
        )
    return f"has a TLS certificate that cannot be verified ({error.verify_message})", todo


def _explain_socket(url: PostgresqlUrl, error: OSError) -> tuple[str, str]:
    message = str(error)
    # asyncpg's words; it has no class for them
    if "rejected SSL upgrade" in message and url.tls.mode in OPTIONAL:
        return (
            "offers no TLS, and does not speak PostgreSQL's protocol without it",
            f"Check that host and port in {VARIABLE} are PostgreSQL's. {_SEE_LOG}",
        )
    if "rejected SSL upgrade" in message:
        return (
            f"does not offer TLS, which sslmode={url.tls.mode} requires",
            "Turn TLS on (`ssl = on` with a certificate), or set sslmode=disable in a network "
            "that nobody else can read.",
        )
    if "during SSL exchange" in message or "connection_lost" in message:
        return "broke off before TLS began", _SEE_LOG
    if isinstance(error, ConnectionResetError | BrokenPipeError):
        if url.tls.parameters.get("sslnegotiation") == "direct":
            return (
                "closed the connection",
                "Remove sslnegotiation=direct, which PostgreSQL understands since version 17.",
            )
        return "closed the connection", _SEE_LOG
    todo = f"Check that it runs, and host and port in {VARIABLE}."
    match error:
        case socket.gaierror():
            why, todo = "the name of its host is unknown", f"Check the host in {VARIABLE}, and DNS."
        case TimeoutError():
            why = "it does not answer in time"
            todo = f"Check firewalls and security groups, and host and port in {VARIABLE}."
        case ConnectionRefusedError():
            why = "nothing listens there"
        case FileNotFoundError():
            why = "there is no socket in that folder"
        case OSError(strerror=str(why)) if why:
            pass
        case _:  # asyncio's, of a host with several addresses
            why = "no address of its host takes connections"
    return f"cannot be reached: {why}", todo

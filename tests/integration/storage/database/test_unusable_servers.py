"""A server that answers is never "unreachable": each answer has its own words, and what to do."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import asyncpg
import pytest
import trustme

from hookfast.cli.database import check_database
from hookfast.errors import Misconfigured
from hookfast.settings.settings import Settings
from hookfast.storage.database.postgresql_servers import PostgresqlServers
from hookfast.storage.database.unusable import explain_server

pytestmark = pytest.mark.anyio

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

_LOGIN = "postgresql://hook:s3cret@127.0.0.1:{port}/hooks"
_SSL_REQUEST = b"\x00\x00\x00\x08\x04\xd2\x16/"


@asynccontextmanager
async def _server(answer: Answer) -> AsyncIterator[int]:
    """Run a server on loopback that answers each connection like this, and return its port."""

    async def answer_and_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, ssl.SSLError):  # the client may leave at any time
            await answer(reader, writer)
        writer.close()

    async with await asyncio.start_server(answer_and_close, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


def _error(state: str, message: str) -> bytes:
    """Return an ErrorResponse of PostgreSQL's protocol."""
    fields = b"".join(
        kind + text.encode() + b"\0"
        for kind, text in ((b"S", "FATAL"), (b"V", "FATAL"), (b"C", state), (b"M", message))
    )
    return b"E" + (len(fields) + 5).to_bytes(4, "big") + fields + b"\0"


def _answering(state: str, message: str) -> Answer:
    """Return an answer without TLS, by this error."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await reader.read(1024) == _SSL_REQUEST:
            writer.write(b"N")
            await reader.read(1024)
        writer.write(_error(state, message))
        await writer.drain()

    return answer


def _sending(*parts: bytes) -> Answer:
    """Return an answer of these bytes, each part after something was received."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            await reader.read(1024)
            writer.write(part)
            await writer.drain()

    return answer


def _with_tls(context: ssl.SSLContext) -> Answer:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(8)
        writer.write(b"S")
        await writer.drain()
        await writer.start_tls(context)
        await reader.read(1024)
        writer.write(_error("28P01", "password authentication failed"))
        await writer.drain()

    return answer


async def _said(answer: Answer, folder: Path, query: str = "", url: str = _LOGIN) -> str:
    """Return why a database on this server cannot be used."""
    async with _server(answer) as port:
        settings = Settings(home=folder, database_url=url.format(port=port) + query)
        with pytest.raises(Misconfigured) as refused:
            await check_database(settings)
    said = refused.value.message
    assert said.startswith(f"PostgreSQL at 127.0.0.1:{port} ") or "localhost" in url
    assert "s3cret" not in said
    assert "\n" not in said
    return said


ANSWERS = [
    ("28P01", "password authentication failed", "refuses the password of the user hook (28P01)"),
    ("28000", 'no pg_hba.conf entry for host "::1"', "denies access to the user hook (28000)"),
    (
        "3D000",
        'database "hooks" does not exist',
        "has no database hooks (3D000). Create it (CREATE",
    ),
    ("42501", "permission denied for database", 'GRANT CONNECT ON DATABASE "hooks" TO "hook";'),
    ("53300", "too many clients already", "has no connection left (53300). Raise max_connections"),
    ("53200", "out of memory", "is short of memory, disk or another resource (53200)"),
    ("57P03", "the database system is starting up", "is starting, stopping or recovering (57P03)"),
    ("26000", "prepared statement does not exist", "a pooler in transaction mode does (26000)"),
    ("42P05", "prepared statement already exists", "a pooler in session mode (often another port)"),
    ("57014", "canceling statement due to statement timeout", "cancelled a statement (57014)"),
    ("57P01", "terminating connection", "ended the session (57P01)"),
    ("55000", "not currently accepting", "accepts no connections to the database hooks (55000)"),
    ("08P01", "server login has been failing", "rejects the login (08P01)"),
    ("XX000", "Tenant or user not found", "answered with an error (XX000). See the log"),
]


@pytest.mark.parametrize(("state", "message", "words"), ANSWERS)
async def test_answer_of_a_server_has_its_own_words(
    tmp_path: Path, state: str, message: str, words: str
) -> None:
    said = await _said(_answering(state, message), tmp_path)
    assert words in said
    assert "cannot be reached" not in said


async def test_missing_password_is_asked_for(tmp_path: Path) -> None:
    answer = _answering("28P01", "empty password returned by client")
    url = "postgresql://hook@127.0.0.1:{port}/hooks"
    assert "wants a password of the user hook (28P01). Add it" in await _said(
        answer, tmp_path, url=url
    )


SETTINGS = [
    ("08P01", "unsupported startup parameter: options", "?options=-c%20x=1", "`options` (08P01)"),
    ("42704", 'unrecognized configuration parameter "my.x"', "?my.x=s3cret", "`my.x` (42704)"),
    ("22023", 'invalid value for parameter "work_mem": "s3cret"', "?work_mem=s3cret", "`work_mem`"),
    ("22023", 'role "s3cret" does not exist', "?role=s3cret", "`role` (22023)"),
    ("42501", 'permission denied to set parameter "log_statement"', "?log_statement=all", "`log_s"),
    (
        "42704",
        'unrecognized "foo"',
        "?jit=on&options=-c%20foo%3Ds3cret%20-c%20x=1",
        "HOOKFAST_DATABASE_URL: `foo` (42704)",
    ),
    ("42601", "invalid argument", "?options=s3cret", "`options` (42601)"),
    (
        "08P01",
        "unsupported startup parameter: search_path",
        "?search_path=a",
        'ALTER ROLE "hook" SET',
    ),
    (
        "08P01",
        "unsupported startup parameter in options: jit",
        "?options=-c%20jit%3Don",
        "`jit` (08P01)",
    ),
]


@pytest.mark.parametrize(("state", "message", "query", "words"), SETTINGS)
async def test_setting_that_the_server_does_not_take_is_named(
    tmp_path: Path, state: str, message: str, query: str, words: str
) -> None:
    said = await _said(_answering(state, message), tmp_path, query)
    assert "does not accept a setting of HOOKFAST_DATABASE_URL: `" in said
    assert words in said


@pytest.mark.parametrize(
    ("answer", "query", "words"),
    [
        (_sending(b"HTTP/1.1 400 Bad Request"), "", "does not speak PostgreSQL's protocol"),
        (_sending(b"N"), "?sslmode=require", "does not offer TLS, which sslmode=require requires"),
        (_sending(b"E"), "?sslmode=require", "broke off before TLS began"),
        (_sending(b""), "?sslmode=require", "broke off before TLS began"),
        (_sending(b""), "?sslmode=disable", "closed the connection"),
        (
            _sending(b"S", b"\x15\x03\x01\x00\x02\x02\x28"),
            "?sslmode=require",
            "ended the TLS handshake",
        ),
        (
            _sending(b"S", b"HTTP/1.1 400 Bad Request\r\n\r\n"),
            "?sslmode=require",
            "ended the TLS hands",
        ),
        (
            _sending(b"R\x00\x00\x00\x08\x00\x00\x00\x07"),  # GSSAPI
            "?sslmode=disable",
            "asks for a login that the driver does not have",
        ),
        (
            _sending(b"R\x00\x00\x00\x08\x00\x00\x00\x02"),  # Kerberos
            "?sslmode=disable",
            "asks for a login that the driver does not have",
        ),
        (_sending(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "?sslmode=disable", "are PostgreSQL's"),
        (_sending(b"E\x00\x00\x00\x05\x00"), "?sslmode=disable", "answered with an error"),
    ],
)
async def test_server_that_does_not_do_as_asked_is_not_unreachable(
    tmp_path: Path, answer: Answer, query: str, words: str
) -> None:
    said = await _said(answer, tmp_path, query)
    assert words in said
    assert "cannot be reached" not in said


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.mark.parametrize(
    ("name", "query", "words"),
    [
        ("127.0.0.1", "?sslmode=verify-full&sslrootcert={ours}", "refuses the password"),
        ("127.0.0.1", "?sslmode=require", "refuses the password"),
        ("127.0.0.1", "?sslmode=verify-full&sslrootcert={other}", "cannot be verified"),
        ("127.0.0.1", "?sslmode=verify-full&sslrootcert={other}", "Add sslrootcert=FILE"),
        ("127.0.0.1", "?sslrootcert=system", "Add sslrootcert=FILE"),
        ("db.example", "?sslmode=verify-full&sslrootcert={ours}", "Use a name of its certificate"),
        ("db.example", "?sslmode=verify-ca&sslrootcert={ours}", "refuses the password"),
    ],
)
async def test_certificate_that_cannot_be_verified_says_why(
    tmp_path: Path, authority: trustme.CA, name: str, query: str, words: str
) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(name).configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ours.pem"))
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "other.pem"))
    files = {name: tmp_path / f"{name}.pem" for name in ("ours", "other")}
    said = await _said(_with_tls(context), tmp_path, query.format(**files))
    assert words in said
    assert "cannot be reached" not in said


async def test_authority_that_the_system_trusts_is_trusted_if_the_url_says_so(
    tmp_path: Path, authority: trustme.CA, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority.cert_pem.write_to_path(str(tmp_path / "system.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "system.pem"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    said = await _said(_with_tls(context), tmp_path, "?sslrootcert=system")
    assert "refuses the password" in said


def test_server_that_does_not_know_direct_tls_is_told_apart_from_others() -> None:
    servers = PostgresqlServers("postgresql://db/hooks?sslmode=require&sslnegotiation=direct")
    found = explain_server(servers, ConnectionResetError(104, "reset by peer"))
    assert found.todo.startswith("Remove sslnegotiation=direct")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionRefusedError(111, "Connect call failed"), "cannot be reached: nothing listens"),
        (TimeoutError(), "cannot be reached: it does not answer in time"),
        (OSError(113, "No route to host"), "cannot be reached: No route to host"),
        (OSError("Multiple exceptions: [Errno 111] …"), "no address of its host takes connections"),
        (ConnectionResetError(104, "reset by peer"), "closed the connection"),
        (PermissionError(13, "Permission denied"), "cannot be reached: Permission denied"),
        (asyncpg.TargetServerAttributeNotMatched("…"), "takes no writes"),
        (asyncpg.ConnectionDoesNotExistError("…"), "closed the connection (08003)"),
        (asyncpg.ReadOnlySQLTransactionError("…"), "takes no writes (25006)"),
        (asyncpg.InternalClientError("…"), "does not speak PostgreSQL's protocol"),
    ],
)
def test_error_on_the_way_to_the_server_has_its_own_words(error: Exception, words: str) -> None:
    servers = PostgresqlServers("postgresql://hook:s3cret@db/hooks")
    found = explain_server(servers, error)
    assert found.saw.startswith("PostgreSQL at db:5432 ")
    assert words in found.saw
    assert found.todo

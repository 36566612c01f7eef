"""The relay's connection to the caller's database."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import asyncpg

from hookfast_client.outbox.database_url import DatabaseUrl, InvalidUrl
from hookfast_client.outbox.table import CHANNEL

CONNECT_SECONDS = 10.0
STATEMENT_SECONDS = 30.0
_ANSWER_SECONDS = 60
"""How long PostgreSQL lets a relay hold its claim without a statement. It is longer than a request
to Hookfast may take, and ends the claim of a machine that has vanished from the network."""
# Without these two, a table without statistics is read and sorted as a whole for each batch.
_SETTINGS = f"""
    SET LOCAL idle_in_transaction_session_timeout = '{_ANSWER_SECONDS}s';
    SET LOCAL enable_bitmapscan = off;
    SET LOCAL enable_seqscan = off;
"""
_PERMANENT = ("22023", "28", "3D", "42", "55P02")
"""Errors that no retry cures: no authorisation, database, table or right, or an invalid setting."""
# TimeoutError is an OSError; the other two: the connection was closed at an unexpected moment
_CUT_OFF = (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError)


class DatabaseUnusable(Exception):
    """The database cannot be used until somebody acts: no such table, no right to it, a wrong
    password, an invalid URL. The message has neither the URL nor the password."""


class DatabaseAway(Exception):
    """The database does not answer now, or ended the connection. The relay tries again."""


@asynccontextmanager
async def connected(url: str, *, on_wake: Callable[[], None]) -> AsyncIterator[Any]:
    """Connect, and call `on_wake` at each notification and when the connection ends. Within the
    block, errors of the database are DatabaseUnusable or DatabaseAway."""
    parsed = _parse(url)
    with _translated_errors():
        connection = await _connect(parsed)
        connection.add_termination_listener(lambda _: on_wake())
        try:
            # Behind PgBouncer's transaction pooling nothing is heard, and the relay only polls.
            await connection.add_listener(CHANNEL, lambda *_: on_wake())
            yield connection
            await connection.close(timeout=CONNECT_SECONDS)
        finally:
            connection.terminate()  # nothing more to do if it is closed


@asynccontextmanager
async def transaction(connection: Any) -> AsyncIterator[None]:
    """Run the block in a transaction that sees what others commit while it runs, whatever the
    database's default is."""
    async with connection.transaction(isolation="read_committed"):
        await connection.execute(_SETTINGS)
        yield


@contextmanager
def _translated_errors() -> Iterator[None]:
    """Raise DatabaseUnusable or DatabaseAway in place of the driver's errors."""
    try:
        yield
    except asyncpg.PostgresError as error:
        state = str(getattr(error, "sqlstate", ""))
        if state.startswith(_PERMANENT):
            raise DatabaseUnusable(f"{error}") from None
        raise DatabaseAway(type(error).__name__) from None
    except _CUT_OFF as error:
        raise DatabaseAway(type(error).__name__) from None


async def _connect(url: DatabaseUrl) -> Any:
    try:
        return await asyncpg.connect(
            url.url,
            timeout=min(CONNECT_SECONDS, url.connect_seconds or CONNECT_SECONDS),
            ssl=url.tls,
            command_timeout=STATEMENT_SECONDS,
            statement_cache_size=0,  # PgBouncer may run the next transaction on another connection
            server_settings={"application_name": "hookfast-outbox-relay"},
        )
    except ssl.SSLCertVerificationError as error:  # a ValueError too
        raise DatabaseUnusable(
            f"The certificate of the outbox's database cannot be verified: {error.verify_message}."
        ) from None
    except (ValueError, OverflowError, asyncpg.ClientConfigurationError):
        # without its text, which quotes parts of the URL
        raise DatabaseUnusable("The URL of the outbox's database is not valid.") from None


def _parse(url: str) -> DatabaseUrl:
    try:
        return DatabaseUrl.parse(url)
    except InvalidUrl as error:
        raise DatabaseUnusable(f"The outbox's database {error}.") from None

"""Whether the database is away is decided by who raised an error, and not by its class."""

from __future__ import annotations

import asyncio
import ssl

import asyncpg
import pytest
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from hookfast.storage.database.availability import (
    connection_lost,
    error_name,
    is_away,
    is_transient,
    sqlstate,
)
from hookfast.storage.database.postgresql_servers import NoServer
from hookfast.storage.database.postgresql_url import Server


@pytest.mark.parametrize(
    "error",
    [
        OSError("a file"),
        ConnectionRefusedError("a receiver"),
        TimeoutError("a receiver"),
        asyncio.IncompleteReadError(b"", 1),
        ssl.SSLError("a certificate"),
        ValueError(),
        ProgrammingError("SELECT", {}, Exception()),
    ],
)
def test_errors_of_others_do_not_count_as_the_databases(error: Exception) -> None:
    assert not is_transient(error)


@pytest.mark.parametrize(
    "error",
    [
        connection_lost(ConnectionRefusedError()),
        connection_lost(TimeoutError()),
        connection_lost(ssl.SSLError()),
        OperationalError("SELECT", {}, Exception()),
        InterfaceError("SELECT", {}, Exception()),
        DBAPIError("SELECT", {}, Exception(), connection_invalidated=True),
        PoolTimeout(),
    ],
)
def test_errors_of_a_database_that_does_not_answer_count_as_away(error: Exception) -> None:
    assert is_away(error)


def test_a_wrapped_error_keeps_its_code_and_its_name() -> None:
    server = Server("db.example.com", 5432)
    full = asyncpg.TooManyConnectionsError()
    error = connection_lost(NoServer("no server takes writes", ((server, full),)))
    assert (sqlstate(error), error_name(error)) == ("53300", "NoServer")
    assert error_name(ValueError()) == "ValueError"

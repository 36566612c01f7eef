"""A PostgreSQL server that rejects requests for a while: callers are told to retry, and the API
recovers by itself."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import asyncpg
import httpx2
import pytest
from fastapi import FastAPI
from sqlalchemy import make_url
from sqlalchemy.exc import DBAPIError
from structlog.testing import capture_logs

from hookfast.clock import utc_now
from hookfast.storage.database.availability import connection_lost
from hookfast.storage.database.engine import Database
from hookfast.storage.keys.new_keys import ensure_operator_key
from tests.support.api_client import (
    OPERATOR_KEY,
    assert_problem,
    borrowed_app,
    client_with,
    development_settings,
)
from tests.support.postgresql import PostgresqlServer

pytestmark = pytest.mark.anyio

OpenClient: TypeAlias = Callable[[], AbstractAsyncContextManager[httpx2.AsyncClient]]


@pytest.fixture
async def open_client(postgresql_url: str, tmp_path: Path) -> AsyncIterator[OpenClient]:
    """Open a client of the application with new database connections."""
    settings = development_settings(postgresql_url, tmp_path)
    async with Database(postgresql_url) as database:
        await ensure_operator_key(database, settings, clock=utc_now)

    @asynccontextmanager
    async def opened() -> AsyncIterator[httpx2.AsyncClient]:
        async with app.router.lifespan_context(app), client_with(app, OPERATOR_KEY) as client:
            yield client

    with borrowed_app(settings) as app:
        yield opened


@pytest.fixture
async def server(
    postgresql_server: PostgresqlServer, postgresql_url: str
) -> AsyncIterator[asyncpg.Connection]:
    """A connection to the client's database."""
    name = make_url(postgresql_url).database
    connection = await asyncpg.connect(
        postgresql_server.async_url(str(name)).replace("+asyncpg", "")
    )
    yield connection
    await connection.close()


async def from_now_on(server: asyncpg.Connection, setting: str) -> None:
    """Apply this setting to all new connections."""
    name = await server.fetchval("SELECT current_database()")
    await server.execute(f'ALTER DATABASE "{name}" {setting}')


def assert_come_again(answer: httpx2.Response) -> None:
    assert_problem(answer, 503, code="unavailable")
    assert int(answer.headers["retry-after"]) > 0


async def test_read_only_server_answers_503_and_is_left_for_a_writable_one(
    open_client: OpenClient, server: asyncpg.Connection
) -> None:
    event = {"type": "order.invoice.paid", "data": {}}
    async with open_client() as client:
        await client.put("/event-types/order.invoice.paid", json={})
    await from_now_on(server, "SET default_transaction_read_only = on")
    async with open_client() as client:
        with capture_logs() as lines:
            for path, body in (
                ("/tenants", {"name": "Acme"}),
                ("/events", event),
                ("/events/batch", {"events": [event, event]}),
            ):
                assert_come_again(await client.post(path, json=body))
        assert (await client.get("/tenants")).status_code == 200
        assert {line["sqlstate"] for line in lines if "sqlstate" in line} == {"25006"}
        assert not any(line.get("exc_info") for line in lines)

        await server.execute("SET default_transaction_read_only = off")
        await from_now_on(server, "RESET default_transaction_read_only")
        # each remaining old connection may fail once more
        answers = [await client.post("/events", json=event) for _ in range(21)]
    assert answers[-1].status_code == 202, answers[-1].text
    assert {one.status_code for one in answers} <= {202, 503}


@pytest.mark.parametrize("limit", ["lock_timeout", "statement_timeout"])
async def test_locked_table_answers_503_after_a_while(
    open_client: OpenClient, server: asyncpg.Connection, limit: str
) -> None:
    await from_now_on(server, f"SET {limit} = '2s'")
    async with open_client() as client:
        async with server.transaction():
            await server.execute("LOCK TABLE tenants IN ACCESS EXCLUSIVE MODE")
            answer = await client.post("/tenants", json={"name": "Acme"})
        assert_come_again(answer)
        assert (await client.post("/tenants", json={"name": "Acme"})).status_code == 201


class Refusal(Exception):
    def __init__(self, sqlstate: str) -> None:
        super().__init__("secret")
        self.sqlstate = sqlstate


STATUSES = {
    "53100": 503,  # disk full
    "53300": 503,  # too many connections
    "40001": 503,  # serialization failure
    "40P01": 503,  # deadlock
    "57014": 503,  # cancelled
    "23505": 500,  # unique violation: a bug of ours
    "42P01": 500,  # no such table
    "55000": 500,
    "25001": 500,
}


async def test_transient_database_error_answers_503_and_others_500(own_app: FastAPI) -> None:
    @own_app.get("/{state}")
    async def refused(state: str) -> None:
        raise DBAPIError("SELECT", {}, Refusal(state))

    transport = httpx2.ASGITransport(own_app, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://hookfast.test") as client:
        for state, status in STATUSES.items():
            answer = await client.get(f"/{state}")
            assert answer.status_code == status, state
            assert "secret" not in answer.text
            assert ("retry-after" in answer.headers) == (status == 503)


@pytest.mark.parametrize(
    "error", [OSError("a file"), ssl.SSLError("a certificate"), TimeoutError(), ConnectionError()]
)
async def test_an_error_that_is_not_the_databases_is_not_taken_for_it(
    own_app: FastAPI, error: Exception
) -> None:
    @own_app.get("/failed")
    async def failed() -> None:
        raise error

    transport = httpx2.ASGITransport(own_app, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://hookfast.test") as client:
        assert_problem(await client.get("/failed"), 500, code="internal_error")


async def test_refusal_without_a_code_logs_no_code(own_app: FastAPI) -> None:
    """Its value would be null, which the schema of log lines does not allow."""

    @own_app.get("/gone")
    async def gone() -> None:
        raise connection_lost(ConnectionResetError())

    transport = httpx2.ASGITransport(own_app, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://hookfast.test") as client:
        with capture_logs() as lines:
            assert_come_again(await client.get("/gone"))
    (line,) = [line for line in lines if line["event"] == "The database is away."]
    assert "sqlstate" not in line

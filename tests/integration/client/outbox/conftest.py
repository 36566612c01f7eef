"""A PostgreSQL database of an application, with an outbox table."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from hookfast.storage.database.engine import Database
from hookfast_client import AsyncHookfast
from hookfast_client.outbox import create_statements
from tests.integration.client.outbox.world import TYPE, World
from tests.support.api_client import OPERATOR_KEY, development_settings
from tests.support.api_server import api_server
from tests.support.postgresql import PostgresqlServer


async def create_outbox(database: Database) -> None:
    """Create the outbox table, and one of the application's own."""
    async with database.write() as connection:
        for statement in (*create_statements(), "CREATE TABLE invoices (id text PRIMARY KEY)"):
            await connection.execute(text(statement))


@pytest.fixture
def outbox_url(postgresql_server: PostgresqlServer) -> Iterator[str]:
    """The URL of a database with an outbox, for drivers without SQLAlchemy."""
    postgresql_server.add_template("outbox", create_outbox)
    with postgresql_server.borrowed("outbox") as url:
        yield url.replace("postgresql+asyncpg://", "postgresql://")


@pytest.fixture
async def world(
    outbox_url: str, sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[World]:
    """An application on PostgreSQL, and a Hookfast on SQLite."""
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:9")
    settings = development_settings(sqlite_url, tmp_path)
    async with (
        api_server(settings) as served,
        AsyncHookfast(served.url, OPERATOR_KEY) as hookfast,
    ):
        world = World(outbox_url, served, hookfast)
        await world.put(f"/event-types/{TYPE}", {})
        yield world

"""A PostgreSQL database of an application, with an outbox table."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import text

from hookfast.storage.database.engine import Database
from hookfast_client.outbox import create_statements
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

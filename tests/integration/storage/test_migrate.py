"""The migrations give exactly the tables the code declares, on both databases."""

from __future__ import annotations

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection
from sqlmodel import SQLModel

import hookfast.storage.tables  # noqa: F401 - fills the metadata
from hookfast.storage.engine import Database
from hookfast.storage.migrate import is_current, migrate

pytestmark = pytest.mark.anyio


async def test_the_migrated_schema_is_the_declared_one(database: Database) -> None:
    def differences(connection: Connection) -> list[object]:
        return list(compare_metadata(MigrationContext.configure(connection), SQLModel.metadata))

    async with database.read() as connection:
        assert await connection.run_sync(differences) == []
    assert await is_current(database)


async def test_migrating_twice_changes_nothing(database: Database) -> None:
    await migrate(database)
    assert await is_current(database)

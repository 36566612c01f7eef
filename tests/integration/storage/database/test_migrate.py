"""The migrations create exactly the tables that the code declares, on both databases."""

from __future__ import annotations

from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from hookfast.errors import Unavailable
from hookfast.storage.database import migrate as migrate_module
from hookfast.storage.database.engine import Database
from hookfast.storage.database.migrate import (
    is_current,
    is_usable,
    migrate,
    newest_revision,
    schema,
)
from hookfast.storage.tables import Record

pytestmark = pytest.mark.anyio


async def test_migrations_create_the_declared_schema(database: Database) -> None:
    def differences(connection: Connection) -> list[object]:
        partitions: set[str] = set()  # parts of tables, which the code does not declare
        if connection.dialect.name == "postgresql":
            found = connection.execute(text("SELECT relname FROM pg_class WHERE relispartition"))
            partitions |= set(found.scalars())
        opts = {"include_name": lambda name, *_: name not in partitions}
        context = MigrationContext.configure(connection, opts=opts)
        return list(compare_metadata(context, Record.metadata))

    async with database.read() as connection:
        assert await connection.run_sync(differences) == []
    assert await is_current(database)


def test_files_of_migrations_are_named_after_their_revisions() -> None:
    scripts = ScriptDirectory(str(migrate_module._MIGRATIONS))
    for script in scripts.walk_revisions():
        assert Path(script.path).name.startswith(f"{script.revision}_")
    assert newest_revision() == scripts.get_current_head()


async def test_migrating_twice_changes_nothing(database: Database) -> None:
    await migrate(database)
    assert await is_current(database)


async def test_older_version_does_not_change_a_newer_schema(
    database: Database,
) -> None:
    """During a rollout, a process of the old version may be restarted."""
    async with database.write() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    await migrate(database)
    async with database.read() as connection:
        found = await connection.scalar(text("SELECT version_num FROM alembic_version"))
    assert found == "9999"
    assert await is_usable(database)
    assert not await is_current(database)


async def test_outdated_schema_is_not_usable(database: Database) -> None:
    async with database.write() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = '0000'"))
    assert not await is_usable(database)


_NEXT = """
import sqlalchemy as sa
from alembic import op

revision, down_revision = "9998", "{before}"


def upgrade() -> None:
    op.add_column("events", sa.Column("more", sa.Text()))
"""


async def test_migration_fails_fast_behind_a_long_transaction(
    postgresql_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise all other statements on the table would wait behind it."""
    monkeypatch.setattr("hookfast.storage.database.migrate._LOCK_TIMEOUT", "100ms")
    current = newest_revision()
    (tmp_path / "9998_next.py").write_text(_NEXT.format(before=current))
    monkeypatch.setattr(migrate_module, "_VERSIONS", [*migrate_module._VERSIONS, tmp_path])
    async with Database(postgresql_url) as database:
        async with database.read() as reader:
            await reader.execute(text("SELECT count(*) FROM events"))
            with pytest.raises(Unavailable, match="nothing was changed"):
                await migrate(database)
        async with database.read() as connection:
            assert await schema(connection) == "behind"
        await migrate(database)
        assert await is_current(database)
        async with database.write() as connection:  # undo: tests share the server
            await connection.execute(text("ALTER TABLE events DROP COLUMN more"))
            restored = text("UPDATE alembic_version SET version_num = :version")
            await connection.execute(restored, {"version": current})

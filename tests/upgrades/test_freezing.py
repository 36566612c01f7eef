"""The migration that `make freeze` writes for a release creates the tables as the code declares
them."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from alembic.migration import MigrationContext
from alembic.operations import Operations

from hookfast.storage.tables import Record
from tests.upgrades.freezing import FIRST, frozen


def _created_by(source: str, *, dialect: str) -> list[str]:
    """Return the statements with which a migration creates the tables and indexes, in order."""
    buffer = StringIO()
    opts = {"as_sql": True, "output_buffer": buffer}
    context = MigrationContext.configure(dialect_name=dialect, opts=opts)
    migration: dict[str, Any] = {}
    exec(source, migration)  # noqa: S102 - our own file
    with Operations.context(context):
        migration["_create_tables"]()
    return [" ".join(statement.split()) for statement in buffer.getvalue().split(";")]


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_frozen_migration_creates_the_declared_tables(dialect: str) -> None:
    source = FIRST.read_text()
    expected = _created_by(source, dialect=dialect)
    assert len(expected) > 2 * len(Record.metadata.tables)
    assert _created_by(frozen(source), dialect=dialect) == expected


def test_migration_is_frozen_only_once() -> None:
    with pytest.raises(ValueError, match="frozen already"):
        frozen(frozen(FIRST.read_text()))


def test_frozen_migration_does_not_say_that_it_follows_the_classes() -> None:
    source = FIRST.read_text()
    assert "follows the table classes" in source
    assert "follow" not in frozen(source)

"""Every statement of the previous version still works on the new schema, because both run during a
rollout. docs/upgrading.md has the policy.

If this fails: expand in this release (a new column is nullable or has a default, the old one
stays), and contract in the next. Before the first release no statements are saved.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import insert, select, text

from hookfast.storage.database.engine import Database
from hookfast.storage.tables import Record
from tests.upgrades.compatibility import broken
from tests.upgrades.recording import HERE, RECORDED, saved, shape

pytestmark = pytest.mark.anyio

_VERSIONS = sorted(path for path in HERE.iterdir() if path.is_dir() and path.name[0].isdigit())


@pytest.mark.parametrize("version", _VERSIONS, ids=lambda path: path.name)
async def test_statements_of_older_versions_work_on_the_newest_schema(
    version: Path, database: Database
) -> None:
    statements = saved(version, database.kind)
    assert len(statements) > 100, "too few statements were recorded"
    assert await broken(database.url, statements) == []


async def _statements(database: Database) -> list[str]:
    """Return statements that read and insert every column of every table."""
    async with database.read() as connection:
        return [
            " ".join(str(statement.compile(dialect=connection.dialect)).split())
            for table in Record.metadata.sorted_tables
            for statement in (select(table), insert(table))
        ]


async def test_statements_on_all_columns_are_accepted(database: Database) -> None:
    assert await broken(database.url, await _statements(database)) == []


async def test_missing_table_or_column_is_detected(database: Database) -> None:
    changes = {
        "ALTER TABLE endpoints RENAME COLUMN state TO mood": {"state", "mood"},
        "DROP TABLE notices": {"notices"},
        "ALTER TABLE jobs DROP COLUMN status": {"status"},
    }
    async with database.write() as connection:
        if database.kind == "sqlite":
            for index in ("ix_jobs_open", "ix_jobs_asking", "ix_jobs_tenant"):
                await connection.execute(text(f"DROP INDEX IF EXISTS {index}"))
        for change in changes:
            await connection.execute(text(change))
    found = await broken(database.url, await _statements(database))
    whys = [line.rpartition(" -- ")[2] for line in found]
    for change, reasons in changes.items():
        assert any(reason in why for reason in reasons for why in whys), change
    for line, why in zip(found, whys, strict=True):
        assert any(reason in why for reasons in changes.values() for reason in reasons), line


async def test_new_required_column_is_detected(database: Database) -> None:
    async with database.write() as connection:
        await connection.execute(
            text("CREATE TABLE mark (id TEXT PRIMARY KEY, kind TEXT NOT NULL)")
        )
    assert await broken(database.url, ["INSERT INTO mark (id, kind) VALUES ('1', '2')"]) == []
    (found,) = await broken(database.url, ["INSERT INTO mark (id) VALUES ('1')"])
    assert found.endswith("mark requires a value for kind")


def test_statements_are_recorded_from_tests_that_exist() -> None:
    assert [path for path in RECORDED if not (HERE.parents[1] / path).exists()] == []


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("SELECT a WHERE b IN (?, ?)", "SELECT a WHERE b IN (?, ?, ?)", True),
        ("INSERT INTO t (a) VALUES (?), (?)", "INSERT INTO t (a) VALUES (?)", True),
        ("IN ($1::VARCHAR, $2::VARCHAR)", "IN ($1::VARCHAR)", True),
        ("SELECT a WHERE b = ?", "SELECT a WHERE c = ?", False),
        ("INSERT INTO t (a, b) VALUES (?, ?)", "INSERT INTO t (a) VALUES (?)", False),
    ],
)
def test_statements_that_differ_in_repetitions_have_the_same_shape(
    one: str, other: str, same: bool
) -> None:
    assert (shape(one) == shape(other)) is same

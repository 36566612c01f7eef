"""Selects the database on which `make test` runs a test when one of the two is enough.

A test that uses the fixture `database_url` exists once for SQLite and once for PostgreSQL. In the
folders that test SQL (`tests/integration/storage`, `tests/upgrades`), both variants run. Elsewhere
one of them is marked `slow`: `heavy` tests run on PostgreSQL, and each other file runs on one of
the two, so that each database is used by about half of the files.
"""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest

_TESTS = Path(__file__).parents[1]
_ON_BOTH = ("integration/storage/", "upgrades/")
_DATABASES = ("sqlite", "postgresql")


def mark_second_variants(items: list[pytest.Item]) -> None:
    """Mark as slow the variant of each test that only `make slow` runs."""
    for item in items:
        callspec = getattr(item, "callspec", None)
        database = None if callspec is None else callspec.params.get("database_url")
        if database in _DATABASES and _database_of(item) not in (None, database):
            item.add_marker(pytest.mark.slow)


def _database_of(item: pytest.Item) -> str | None:
    """Return the database on which `make test` runs the test; None means both."""
    if item.get_closest_marker("both_databases") is not None:
        return None
    file = item.path.relative_to(_TESTS).as_posix()
    if item.get_closest_marker("heavy") is not None:
        return "postgresql"
    if file.startswith(_ON_BOTH):
        return None
    return _DATABASES[crc32(file.encode()) % 2]

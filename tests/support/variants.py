"""Which variant of a test runs in `make test`, where one is enough to keep its promise.

A test that uses the fixture `database_url` exists once for SQLite and once for PostgreSQL. Where
SQL is written (`tests/integration/storage`, `tests/upgrades`), both run. Everywhere else one of
them runs and the other is `slow`: PostgreSQL for tests that are `heavy`, and for the rest each file
has one of the two, so that both databases stay under half of the files.
"""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest

_TESTS = Path(__file__).parents[1]
_ON_BOTH = ("integration/storage/", "upgrades/")
_DATABASES = ("sqlite", "postgresql")


def mark_second_variants(items: list[pytest.Item]) -> None:
    """Mark the variant of each test that `make test` leaves to `make slow`."""
    for item in items:
        callspec = getattr(item, "callspec", None)
        database = None if callspec is None else callspec.params.get("database_url")
        if database in _DATABASES and _database_of(item) not in (None, database):
            item.add_marker(pytest.mark.slow)


def _database_of(item: pytest.Item) -> str | None:
    """The database of the variant that runs; None: both run."""
    if item.get_closest_marker("both_databases") is not None:
        return None
    file = item.path.relative_to(_TESTS).as_posix()
    if item.get_closest_marker("heavy") is not None:
        return "postgresql"
    if file.startswith(_ON_BOTH):
        return None
    return _DATABASES[crc32(file.encode()) % 2]

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hookfast.storage.database import partitions
from hookfast.storage.database.engine import Database
from hookfast.storage.database.migrate import migrate
from tests.integration.storage.retention.old_rows import NOW, drop_partitions
from tests.support.postgresql import PostgresqlServer


@pytest.fixture
def postgresql_url(postgresql_server: PostgresqlServer) -> Iterator[str]:
    """The URL of a migrated, empty database. Its partitions are those that a run at NOW creates."""
    postgresql_server.add_template("retention", _migrate_at_now)
    with postgresql_server.borrowed("retention") as url:
        yield url


async def _migrate_at_now(database: Database) -> None:
    await migrate(database)
    await drop_partitions(database)  # of today
    await partitions.create_ahead(database, now=NOW)

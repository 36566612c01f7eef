"""What has to be there before anything runs: the database, its schema, and an operator key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy import text

from api.authentication import ensure_operator_key
from hookfast.cli.console import out, print_operator_key, read_settings
from hookfast.clock import utc_now
from hookfast.doctor.database import AWAY, UNREADABLE, away, parsed_url, unreadable
from hookfast.doctor.finding import Finding
from hookfast.errors import Misconfigured
from hookfast.logs import configure_logging
from hookfast.settings import Settings
from hookfast.storage.engine import Database
from hookfast.storage.migrate import migrate, newest_revision


async def prepare(settings: Settings) -> str | None:
    """Migrate and make sure there is an operator key; gives the key when it was made here. Any
    number of processes may do this at once."""
    async with reached(settings) as database:
        await migrate(database)
        return await ensure_operator_key(database, settings, clock=utc_now)


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


def main() -> None:
    """`hookfast migrate`."""
    settings = read_settings()
    configure_logging(settings, process="migrate")
    key = asyncio.run(prepare(settings))
    out.print(f"The database is at revision {newest_revision()}.", highlight=False)
    if key is not None:
        print_operator_key(key)

"""What has to be there before anything runs: the database, its schema, and an operator key."""

from __future__ import annotations

import asyncio

from api.access.authentication import ensure_operator_key
from hookfast.cli.console import out, print_operator_key, read_settings
from hookfast.cli.database import reached
from hookfast.clock import utc_now
from hookfast.logs import configure_logging
from hookfast.settings.settings import Settings
from hookfast.storage.database.migrate import migrate, newest_revision


async def prepare(settings: Settings) -> str | None:
    """Migrate and make sure there is an operator key; gives the key when it was made here. Any
    number of processes may do this at once."""
    async with reached(settings) as database:
        await migrate(database)
        return await ensure_operator_key(database, settings, clock=utc_now)


def main() -> None:
    """`hookfast migrate`."""
    settings = read_settings()
    configure_logging(settings, process="migrate")
    key = asyncio.run(prepare(settings))
    out.print(f"The database is at revision {newest_revision()}.", highlight=False)
    if key is not None:
        print_operator_key(key)

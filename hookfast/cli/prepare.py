"""`hookfast migrate`, which the other commands also run when they start: it migrates the database
and creates the first operator key."""

from __future__ import annotations

from hookfast.cli.console import out, print_operator_key, read_settings
from hookfast.cli.database import open_database
from hookfast.clock import utc_now
from hookfast.logs import configure_logging
from hookfast.process import run_async
from hookfast.settings.settings import Settings
from hookfast.storage.database.migrate import migrate, newest_revision
from hookfast.storage.keys.new_keys import ensure_operator_key


async def prepare(settings: Settings) -> str | None:
    """Migrate the database and create an operator key if there is none. Return the key if it was
    created here. Any number of processes may do this at once."""
    async with open_database(settings) as database:
        await migrate(database)
        return await ensure_operator_key(database, settings, clock=utc_now)


def main() -> None:
    """Migrate the database, and print its revision and a new operator key."""
    settings = read_settings()
    configure_logging(settings, process="migrate")
    key = run_async(prepare(settings))
    out.print(f"The database is at revision {newest_revision()}.", highlight=False)
    if key is not None:
        print_operator_key(key)

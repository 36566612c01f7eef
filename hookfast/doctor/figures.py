"""Checks that figures agree with the rows that they count, and that they are added up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from hookfast.clock import Clock
from hookfast.deliveries.figures import Key, minute_of
from hookfast.doctor.database import open_existing
from hookfast.doctor.finding import Finding, ok, warn
from hookfast.plural import are, pluralize
from hookfast.settings.settings import Settings
from hookfast.storage.counting import folding
from hookfast.storage.database.engine import Database
from hookfast.storage.database.migrate import is_current
from hookfast.storage.figures import reconciliation

_MOST_ENDPOINTS: Final = 2_000
_COMPARE_SECONDS: Final = 8.0
_MINUTES: Final = 2
"""Entries that count something older than this are suspicious; most are added up in seconds."""
_WAIT_SECONDS: Final = 1.5 * folding.EVERY_SECONDS
_POLL_SECONDS: Final = 0.5
_NAMED: Final = 3


async def check_figures(settings: Settings, clock: Clock) -> AsyncIterator[Finding]:
    """Compare gauges with deliveries, of a bounded number of endpoints, and look for entries that
    nobody adds up. Changes nothing."""
    database, _ = open_existing(settings)
    if database is None:
        return  # the check `database` says why
    async with database:
        try:
            if not await is_current(database):
                return  # the check `database.schema` says why
            yield await _check_gauges(database)
            yield await _check_entries(database, clock)
        except SQLAlchemyError as error:
            yield warn(
                "figures.gauges",
                f"Figures could not be compared with the rows: {type(error).__name__}.",
                todo="If the check `database` passes, run the doctor again when the database is "
                "less busy.",
            )


async def _check_gauges(database: Database) -> Finding:
    check, end = "figures.gauges", time.monotonic() + _COMPARE_SECONDS
    compared, more = 0, False
    drift: dict[Key, int] = {}
    async for page in reconciliation.pages(database):
        if compared >= _MOST_ENDPOINTS or time.monotonic() > end:
            more = True
            break
        compared += len(page.endpoint_ids)
        drift |= page.drift
    differing = sorted({key.endpoint_id for key in drift})
    saw = f"The gauges of {pluralize(compared, 'endpoint')} were compared with the rows"
    saw += ", the oldest first; the daily run compares all" if more else ""
    if not drift:
        return ok(check, f"{saw}: all agree.")
    named = ", ".join(differing[:_NAMED]) + (", …" if len(differing) > _NAMED else "")
    return warn(
        check,
        f"{saw}: {pluralize(len(drift), 'gauge')} of {pluralize(len(differing), 'endpoint')} "
        f"({named}) {'differs' if len(drift) == 1 else 'differ'}: "
        f"{', '.join(reconciliation.in_words(drift))} to be added.",
        todo="The daily run corrects them, and so does `hookfast retention run`. Please report it.",
    )


async def _check_entries(database: Database, clock: Clock) -> Finding:
    """Check that no entry stays: they have no time of their own, so an entry that counts
    something old is watched for longer than processes take to add it up."""
    check, end = "figures.entries", time.monotonic() + _WAIT_SECONDS
    before = minute_of(clock()) - _MINUTES
    oldest = first = await _oldest_entry(database, before=before)
    while oldest is not None and oldest == first and time.monotonic() < end:
        await asyncio.sleep(_POLL_SECONDS)
        oldest = await _oldest_entry(database, before=before)
    if oldest is None or oldest != first:
        return ok(check, "Entries of figures are added up.")
    async with database.read() as connection:
        number = await folding.count(connection)
    return warn(
        check,
        f"{pluralize(number, 'entry')} of figures {are(number)} waiting, and no process adds them "
        "up. Figures stay exact, but pages read every entry.",
        todo="Start the API or a worker. If they run, look for “Figures cannot be added up” in "
        "their logs.",
    )


async def _oldest_entry(database: Database, *, before: int) -> int | None:
    async with database.read() as connection:
        return await folding.oldest(connection, before=before)

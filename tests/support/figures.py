"""Figures of rows that tests insert or change by hand, which nothing has counted."""

from __future__ import annotations

from sqlalchemy import delete

from bench import recount
from hookfast.deliveries.figures import Tally
from hookfast.storage.counting import entries
from hookfast.storage.database.engine import Database
from hookfast.storage.tables import Figure, FigureEntry, Gauge, GaugeTotal


async def count_rows(database: Database) -> None:
    """Replace all figures by those of the rows that are there."""
    tally = Tally()
    async with database.write() as connection:
        for table in (Figure, FigureEntry, Gauge, GaugeTotal):
            await connection.execute(delete(table.__table__))
        await recount.count_rows(connection, tally)
        await entries.write(connection, tally.numbers())

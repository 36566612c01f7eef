"""Writes what a transaction has counted, in that transaction: a figure is in the same commit as the
record, or it is not there.

Rows are only inserted, so no transaction waits for another one's. `folding` adds them up.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sqlalchemy import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.figures import Key, Tally
from hookfast.storage.database.prepared import Prepared
from hookfast.storage.tables import FigureEntry

_NAMES: Final = (*Key._fields, "number")
_INSERT: Final = Prepared(insert(FigureEntry.__table__))


async def add(connection: AsyncConnection, tally: Tally) -> None:
    """Write what was counted."""
    await add_numbers(connection, tally.numbers())


async def add_numbers(connection: AsyncConnection, numbers: Iterable[tuple[Key, int]]) -> None:
    """Write these numbers."""
    rows = [dict(zip(_NAMES, (*key, number), strict=True)) for key, number in numbers]
    if rows:
        await _INSERT.each(connection, rows)

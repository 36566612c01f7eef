"""Writes what a transaction has counted, in that transaction: a figure is in the same commit as the
record, or it is not there.

Rows are only inserted, so no transaction waits for another one's. `folding` adds them up.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sqlalchemy import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.figures import Key
from hookfast.storage.database.prepared import Prepared, Writes
from hookfast.storage.tables import FigureEntry

_NAMES: Final = (*Key._fields, "number")
_INSERT: Final = Prepared(insert(FigureEntry.__table__))


def add(writes: Writes, numbers: Iterable[tuple[Key, int]]) -> None:
    """Write these numbers, as a `Tally` has them, with the others of a transaction."""
    rows = [dict(zip(_NAMES, (*key, number), strict=True)) for key, number in numbers]
    writes.add(_INSERT, rows)


async def write(connection: AsyncConnection, numbers: Iterable[tuple[Key, int]]) -> None:
    """Write these numbers, in a transaction that inserts no others."""
    writes = Writes()
    add(writes, numbers)
    await writes.run(connection)

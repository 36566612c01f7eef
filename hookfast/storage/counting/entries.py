"""Writes what a transaction has counted, in that transaction: a figure is in the same commit as the
record, or it is not there.

Rows are only inserted, so no transaction waits for another one's. `folding` adds them up.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sqlalchemy import Table
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.figures import Key, Tally
from hookfast.storage.tables import FigureEntry

_ENTRIES: Table = FigureEntry.__table__
_NAMES: Final = (*Key._fields, "number")
_INSERT: Final = f"INSERT INTO figure_entries ({', '.join(_NAMES)})"


def _arrays() -> str:
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    types = (_ENTRIES.c[name].type.compile(dialect) for name in _NAMES)
    given = ", ".join(f"${number}::{type_}[]" for number, type_ in enumerate(types, 1))
    # an array for each column, because a statement for each row costs the server twice the CPU
    return f"{_INSERT} SELECT * FROM unnest({given})"  # noqa: S608 - names of ours


_ARRAYS: Final = _arrays()
_ROWS: Final = f"{_INSERT} VALUES ({', '.join('?' for _ in _NAMES)})"


async def add(connection: AsyncConnection, tally: Tally) -> None:
    """Write what was counted."""
    await add_numbers(connection, tally.numbers())


async def add_numbers(connection: AsyncConnection, numbers: Iterable[tuple[Key, int]]) -> None:
    """Write these numbers."""
    rows = [(*key, number) for key, number in numbers]
    if not rows:
        return
    if connection.dialect.name == "postgresql":
        columns = tuple(map(list, zip(*rows, strict=True)))
        await connection.exec_driver_sql(_ARRAYS, columns)
    else:
        await connection.exec_driver_sql(_ROWS, rows)

"""Reads rows as instances of their table's model."""

from __future__ import annotations

from typing import TypeVar

from sqlalchemy import Executable
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import SQLModel

_Model = TypeVar("_Model", bound=SQLModel)


async def fetch_one(
    connection: AsyncConnection, statement: Executable, model: type[_Model]
) -> _Model | None:
    """Return the first row of a statement that returns all columns of `model`, or None."""
    row = (await connection.execute(statement)).mappings().first()
    return None if row is None else model(**row)


async def fetch_all(
    connection: AsyncConnection, statement: Executable, model: type[_Model]
) -> list[_Model]:
    """Return the rows of a statement that returns all columns of `model`."""
    rows = await connection.execute(statement)
    return [model(**row) for row in rows.mappings()]

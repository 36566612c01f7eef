"""INSERT … ON CONFLICT, which both databases have and SQLAlchemy offers per dialect."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection


def insert_into(connection: AsyncConnection, table: Table) -> Any:
    """Return the INSERT of the connection's dialect, which has `on_conflict_do_update`. Any,
    because the classes of the two dialects share no type that has it."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    return dialect.insert(table)

"""The base class of all table classes, and their partial indexes."""

from __future__ import annotations

from typing import ClassVar

from sqlalchemy import Index, Table, text
from sqlmodel import SQLModel


class Record(SQLModel):
    """The base class of all table classes, with typed access to the Core table."""

    __table__: ClassVar[Table]


def partial_index(name: str, *columns: str, where: str) -> Index:
    """Return an index of the rows that fulfil `where`, on both databases."""
    predicate = text(where)
    return Index(name, *columns, sqlite_where=predicate, postgresql_where=predicate)

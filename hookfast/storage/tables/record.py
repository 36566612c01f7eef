"""The base class of all table classes."""

from __future__ import annotations

from typing import ClassVar

from sqlalchemy import Table
from sqlmodel import SQLModel


class Record(SQLModel):
    """The base class of all table classes, with typed access to the Core table."""

    __table__: ClassVar[Table]

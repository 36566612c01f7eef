"""What every table class is."""

from __future__ import annotations

from typing import ClassVar

from sqlalchemy import Table
from sqlmodel import SQLModel


class Record(SQLModel):
    """What every table class is: gives typed access to its Core table."""

    __table__: ClassVar[Table]

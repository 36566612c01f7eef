"""Transactions that are rolled back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.storage.database.engine import Database


class _Undone(Exception):
    """Rolls a transaction back."""


@asynccontextmanager
async def undoing(database: Database) -> AsyncIterator[AsyncConnection]:
    """Open a transaction that writes, and roll it back at the end of the block."""
    with suppress(_Undone):
        async with database.write() as connection:
            yield connection
            raise _Undone

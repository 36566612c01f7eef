"""Asks a PostgreSQL server once per test process for what its own types are.

asyncpg asks on each connection for the types that it does not know, such as an array of texts, and
keeps the answer as long as the connection. Tests open thousands of connections for a few
transactions each, and the answer took an eighth of the servers' CPU.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import asyncpg

_FIRST_OWN_OID = 16384
"""Types with lower ids are PostgreSQL's own, and the same on each server of its version."""
_KEPT = SimpleNamespace(name="kept")
"""In place of the statement that was sent: its name says that the connection's unnamed statement is
still the caller's."""


def use() -> None:
    """Let all connections that asyncpg opens from now on share the answers."""
    ask = asyncpg.Connection._introspect_types
    answers: dict[frozenset[int], Any] = {}

    async def introspect_types(
        connection: asyncpg.Connection, typeoids: set[int], timeout: float
    ) -> tuple[Any, Any]:
        key = frozenset(typeoids)
        if key in answers:
            return answers[key], _KEPT
        rows, statement = await ask(connection, typeoids, timeout)
        if max(row["oid"] for row in rows) < _FIRST_OWN_OID:
            answers[key] = rows
        return rows, statement

    asyncpg.Connection._introspect_types = introspect_types

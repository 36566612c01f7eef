"""Statements on `idempotency_keys`, which map keys to events. The primary key decides between
simultaneous requests: the second waits for the first, and then finds its event."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Table, and_, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.storage.database.upsert import insert_into
from hookfast.storage.tables import IdempotencyKey

_KEYS: Table = IdempotencyKey.__table__
_C = _KEYS.c


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedKey:
    """A used key, with the event that it created and the hash of the request's content."""

    scope: str
    key: str
    event_id: str
    sha256: str


async def claim(connection: AsyncConnection, rows: Sequence[dict[str, Any]]) -> set[str]:
    """Insert the unused keys, and return the ids of their events, which the caller inserts in the
    same transaction."""
    statement = (
        insert_into(connection, _KEYS)
        .on_conflict_do_nothing(index_elements=["scope", "key"])
        .returning(_C.event_id)
    )
    return set((await connection.execute(statement, rows)).scalars())


async def find(connection: AsyncConnection, keys: Iterable[tuple[str, str]]) -> list[UsedKey]:
    """Return those of these (scope, key) pairs that were used."""
    by_scope: dict[str, list[str]] = defaultdict(list)
    for scope, key in keys:
        by_scope[scope].append(key)
    rows = await connection.execute(
        select(_C.scope, _C.key, _C.event_id, _C.sha256).where(
            or_(*(and_(_C.scope == scope, _C.key.in_(some)) for scope, some in by_scope.items()))
        )
    )
    return [
        UsedKey(scope=row.scope, key=row.key, event_id=row.event_id, sha256=row.sha256)
        for row in rows
    ]

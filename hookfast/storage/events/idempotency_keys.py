"""Statements on `idempotency_keys`, which map keys to events. The primary key decides between
simultaneous requests: the second waits for the first, and then finds its event."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Row, Table, and_, delete, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.storage.database.upsert import insert_into
from hookfast.storage.tables import IdempotencyKey

_KEYS: Table = IdempotencyKey.__table__
_C = _KEYS.c


async def claim(connection: AsyncConnection, rows: Sequence[dict[str, Any]]) -> set[str]:
    """Insert the unused keys, and return the ids of their events, which the caller inserts in the
    same transaction."""
    statement = (
        insert_into(connection, _KEYS)
        .on_conflict_do_nothing(index_elements=["scope", "key"])
        .returning(_C.event_id)
    )
    return set((await connection.execute(statement, rows)).scalars())


async def release(connection: AsyncConnection, event_ids: Iterable[str]) -> None:
    """Delete the keys that this transaction has claimed for these events, which are not inserted
    after all."""
    await connection.execute(delete(_KEYS).where(_C.event_id.in_(list(event_ids))))


async def find(
    connection: AsyncConnection, keys: Iterable[tuple[str, str]]
) -> Sequence[Row[str, str, str, str]]:
    """Return the scope, key, event_id and sha256 of those (scope, key) pairs that were used. The
    hash is of the request's content."""
    by_scope: dict[str, list[str]] = defaultdict(list)
    for scope, key in keys:
        by_scope[scope].append(key)
    rows = await connection.execute(
        select(_C.scope, _C.key, _C.event_id, _C.sha256).where(
            or_(*(and_(_C.scope == scope, _C.key.in_(some)) for scope, some in by_scope.items()))
        )
    )
    return rows.all()

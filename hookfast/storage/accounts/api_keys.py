"""Statements on `api_keys`. Only a key's SHA-256 is ever stored."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from datetime import datetime
from typing import Literal

from sqlalchemy import func, insert, or_, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.storage.database.keyset import newest_first
from hookfast.storage.database.rows import fetch_all, fetch_one
from hookfast.storage.database.upsert import insert_into
from hookfast.storage.tables import ApiKey

Scope = Literal["operator", "tenant", "tenant:read", "emit"]

_KEYS = ApiKey.__table__


def key_hash(key: str) -> str:
    """Return the SHA-256 of a key, in hex. The timing of a look-up by hash reveals nothing about
    the stored keys, because similar keys have unrelated hashes."""
    return hashlib.sha256(key.encode()).hexdigest()


async def add(connection: AsyncConnection, key: ApiKey) -> None:
    """Add a key."""
    await connection.execute(insert(_KEYS).values(key.model_dump()))


async def add_if_missing(connection: AsyncConnection, key: ApiKey) -> bool:
    """Add a key unless one with its hash exists, and return whether it was added. Safe when several
    processes do it at once."""
    statement = insert_into(connection, _KEYS).values(key.model_dump())
    result = await connection.execute(
        statement.on_conflict_do_nothing(index_elements=["key_sha256"])
    )
    return result.rowcount == 1


async def by_hash(connection: AsyncConnection, key_sha256: str) -> ApiKey | None:
    """Return the key with this SHA-256 (hex), even if revoked or expired."""
    return await fetch_one(
        connection, select(_KEYS).where(_KEYS.c.key_sha256 == key_sha256), ApiKey
    )


async def get(connection: AsyncConnection, key_id: str) -> ApiKey | None:
    """Return the key with this id, unless it was revoked."""
    statement = select(_KEYS).where(_KEYS.c.id == key_id, _KEYS.c.revoked_at.is_(None))
    return await fetch_one(connection, statement, ApiKey)


async def owned_by(
    connection: AsyncConnection, key_ids: Collection[str], *, tenant_id: str
) -> frozenset[str]:
    """Return those of these ids that are the tenant's keys, revoked and expired ones included."""
    if not key_ids:
        return frozenset()
    ids = await connection.scalars(
        select(_KEYS.c.id).where(_KEYS.c.id.in_(sorted(key_ids)), _KEYS.c.tenant_id == tenant_id)
    )
    return frozenset(ids)


async def list_page(
    connection: AsyncConnection, *, tenant_id: str | None, after: str | None, limit: int
) -> list[ApiKey]:
    """List a tenant's keys (None: the operators'), newest first, without revoked ones."""
    owner = _KEYS.c.tenant_id
    statement = select(_KEYS).where(
        owner.is_(None) if tenant_id is None else owner == tenant_id, _KEYS.c.revoked_at.is_(None)
    )
    page = newest_first(statement, _KEYS.c.id, after=after, limit=limit)
    return await fetch_all(connection, page, ApiKey)


async def revoke(connection: AsyncConnection, key_id: str, *, at: datetime) -> None:
    """Revoke a key."""
    await connection.execute(
        update(_KEYS)
        .where(_KEYS.c.id == key_id, _KEYS.c.revoked_at.is_(None))
        .values(revoked_at=at)
    )


async def revoke_of_tenant(connection: AsyncConnection, tenant_id: str, *, at: datetime) -> None:
    """Revoke all keys of a tenant."""
    await connection.execute(
        update(_KEYS)
        .where(_KEYS.c.tenant_id == tenant_id, _KEYS.c.revoked_at.is_(None))
        .values(revoked_at=at)
    )


async def touch(connection: AsyncConnection, key_ids: Collection[str], *, at: datetime) -> None:
    """Record when these keys were last used."""
    await connection.execute(
        update(_KEYS).where(_KEYS.c.id.in_(sorted(key_ids))).values(last_used_at=at)
    )


async def count_operator_keys(connection: AsyncConnection, *, at: datetime) -> int:
    """Return how many operator keys are valid at this time."""
    result = await connection.execute(
        select(func.count())
        .select_from(_KEYS)
        .where(
            _KEYS.c.scope == "operator",
            _KEYS.c.revoked_at.is_(None),
            or_(_KEYS.c.expires_at.is_(None), _KEYS.c.expires_at > at),
        )
    )
    return result.scalar_one()


async def lock_operator_keys(connection: AsyncConnection) -> None:
    """Keep other transactions from changing keys until this one ends, so that a count stays true.
    SQLite's write transactions exclude each other anyway."""
    if connection.dialect.name == "postgresql":
        await connection.execute(text("LOCK TABLE api_keys IN SHARE ROW EXCLUSIVE MODE"))

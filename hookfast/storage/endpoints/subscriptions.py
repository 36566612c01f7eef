"""Statements on `subscriptions` and `subscription_patterns`, which are always written together.
`mappings` keeps their mappings."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Table, delete, exists, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.events.event_type import matching_patterns
from hookfast.events.filter import filter_text
from hookfast.storage.database.keyset import newest_first
from hookfast.storage.database.rows import fetch_all, fetch_one
from hookfast.storage.endpoints import mappings
from hookfast.storage.events.filtering import Evaluation, Example
from hookfast.storage.tables import Endpoint, Subscription, SubscriptionPattern

_SUBSCRIPTIONS: Table = Subscription.__table__
_PATTERNS: Table = SubscriptionPattern.__table__
_ENDPOINTS: Table = Endpoint.__table__
_EXAMPLE_AT_ONCE = 500
_FIXED = {"id", "endpoint_id", "tenant_id", "created_at"}


async def add(connection: AsyncConnection, subscription: Subscription) -> None:
    """Store a new subscription."""
    await connection.execute(insert(_SUBSCRIPTIONS).values(subscription.model_dump()))
    await _add_patterns(connection, subscription)
    await mappings.keep(connection, subscription)


async def get(connection: AsyncConnection, subscription_id: str) -> Subscription | None:
    """Return the subscription with this id."""
    statement = select(_SUBSCRIPTIONS).where(_SUBSCRIPTIONS.c.id == subscription_id)
    return await fetch_one(connection, statement, Subscription)


async def list_page(
    connection: AsyncConnection,
    *,
    tenant_id: str | None,
    endpoint_id: str | None,
    matches: str | None,
    example: Example | None,
    after: str | None,
    limit: int,
) -> list[Subscription]:
    """Return subscriptions, newest first: those of one tenant, to one endpoint, that would receive
    an event of the type `matches`, and whose content filter an example event passes. A condition
    that is None does not apply."""
    statement = select(_SUBSCRIPTIONS)
    if tenant_id is not None:
        statement = statement.where(_SUBSCRIPTIONS.c.tenant_id == tenant_id)
    if endpoint_id is not None:
        statement = statement.where(_SUBSCRIPTIONS.c.endpoint_id == endpoint_id)
    if matches is not None:
        statement = statement.where(_SUBSCRIPTIONS.c.active, _receives(matches, tenant_id))
    passing: list[Subscription] = []
    while True:
        at_once = limit if example is None else max(limit, _EXAMPLE_AT_ONCE)
        page = newest_first(statement, _SUBSCRIPTIONS.c.id, after=after, limit=at_once)
        rows = await fetch_all(connection, page, Subscription)
        if example is None:
            return rows
        passing += await asyncio.to_thread(_passing, rows, example)
        if len(rows) < at_once or len(passing) >= limit:
            return passing[:limit]
        after = rows[-1].id


def _passing(rows: Sequence[Subscription], example: Example) -> list[Subscription]:
    of_event = Evaluation().of_event(example)
    return [
        row
        for row in rows
        if of_event.passes(
            None if row.filter is None else filter_text(row.filter), tenant_id=row.tenant_id
        )
        is not False
    ]


async def patterns_of_endpoint(connection: AsyncConnection, endpoint_id: str) -> list[str]:
    """Return the distinct patterns of all subscriptions to an endpoint, in order."""
    result = await connection.execute(
        select(_PATTERNS.c.pattern)
        .distinct()
        .join(_SUBSCRIPTIONS, _SUBSCRIPTIONS.c.id == _PATTERNS.c.subscription_id)
        .where(_SUBSCRIPTIONS.c.endpoint_id == endpoint_id)
        .order_by(_PATTERNS.c.pattern)
    )
    return list(result.scalars())


async def change(
    connection: AsyncConnection, subscription: Subscription, *, seen: datetime
) -> bool:
    """Store a changed subscription, unless it was changed or deleted since `seen` (its
    `updated_at` when it was read). Returns whether it was stored."""
    values = subscription.model_dump(exclude=_FIXED)
    result = await connection.execute(
        update(_SUBSCRIPTIONS)
        .where(_SUBSCRIPTIONS.c.id == subscription.id, _SUBSCRIPTIONS.c.updated_at == seen)
        .values(values)
    )
    if result.rowcount != 1:
        return False
    await _remove_patterns(connection, _PATTERNS.c.subscription_id == subscription.id)
    await _add_patterns(connection, subscription)
    await mappings.keep(connection, subscription)
    return True


async def remove(connection: AsyncConnection, subscription_id: str) -> bool:
    """Delete a subscription. Returns whether it existed."""
    return await _remove(connection, _SUBSCRIPTIONS.c.id == subscription_id) == 1


async def remove_of_endpoint(connection: AsyncConnection, endpoint_id: str) -> None:
    """Delete every subscription to an endpoint."""
    await _remove(connection, _SUBSCRIPTIONS.c.endpoint_id == endpoint_id)


async def remove_of_tenant(connection: AsyncConnection, tenant_id: str) -> None:
    """Delete every subscription of a tenant."""
    await _remove(connection, _SUBSCRIPTIONS.c.tenant_id == tenant_id)


def _receives(event_type: str, tenant_id: str | None) -> ColumnElement[bool]:
    patterns = select(_PATTERNS.c.subscription_id).where(
        _PATTERNS.c.pattern.in_(matching_patterns(event_type))
    )
    if tenant_id is not None:
        patterns = patterns.where(_PATTERNS.c.tenant_id == tenant_id)
    endpoint_lives = exists().where(
        _ENDPOINTS.c.id == _SUBSCRIPTIONS.c.endpoint_id, _ENDPOINTS.c.deleted_at.is_(None)
    )
    return _SUBSCRIPTIONS.c.id.in_(patterns) & endpoint_lives


async def _add_patterns(connection: AsyncConnection, subscription: Subscription) -> None:
    rows: Sequence[dict[str, Any]] = [
        {
            "pattern": pattern,
            "tenant_id": subscription.tenant_id,
            "subscription_id": subscription.id,
        }
        for pattern in dict.fromkeys(subscription.events)
    ]
    await connection.execute(insert(_PATTERNS), rows)


async def _remove(connection: AsyncConnection, which: ColumnElement[bool]) -> int:
    ids = select(_SUBSCRIPTIONS.c.id).where(which)
    await _remove_patterns(connection, _PATTERNS.c.subscription_id.in_(ids))
    result = await connection.execute(delete(_SUBSCRIPTIONS).where(which))
    return result.rowcount


async def _remove_patterns(connection: AsyncConnection, which: ColumnElement[bool]) -> None:
    await connection.execute(delete(_PATTERNS).where(which))

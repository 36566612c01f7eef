"""Who wants an event: an index look-up of the few patterns that can match its type."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlalchemy import Select, Table, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.event_type import matching_patterns
from hookfast.storage.tables import Endpoint, Subscription, SubscriptionPattern

_PATTERNS: Table = SubscriptionPattern.__table__
_SUBSCRIPTIONS: Table = Subscription.__table__
_ENDPOINTS: Table = Endpoint.__table__

Audience: TypeAlias = "tuple[str, str | None]"
"""An event type, and the one tenant that may see it; None is a broadcast to every tenant."""


@dataclass(frozen=True, slots=True)
class Subscriber:
    """An active subscription to an endpoint that is not deleted."""

    subscription_id: str
    tenant_id: str
    endpoint_id: str
    payload: str
    endpoint_state: str


async def find_subscribers(
    connection: AsyncConnection, audiences: Iterable[Audience]
) -> dict[Audience, list[Subscriber]]:
    """The subscribers of each audience, every subscription once however many of its patterns match.

    One statement per event type: with its tenants alone it probes 15 keys for each of them, where
    one statement for all would probe every type's keys for every tenant.
    """
    tenants_of: defaultdict[str, set[str | None]] = defaultdict(set)
    for event_type, tenant_id in audiences:
        tenants_of[event_type].add(tenant_id)
    found: dict[Audience, list[Subscriber]] = {}
    for event_type, tenants in tenants_of.items():
        named = {tenant for tenant in tenants if tenant is not None}
        statement = matching_statement(event_type, None if None in tenants else named)
        # a dictionary and not DISTINCT: it needs no sort and keeps the order of the look-up
        rows = {row.id: Subscriber(*row) for row in await connection.execute(statement)}
        by_tenant: defaultdict[str, list[Subscriber]] = defaultdict(list)
        for subscriber in rows.values():
            by_tenant[subscriber.tenant_id].append(subscriber)
        for tenant_id in tenants:
            found[event_type, tenant_id] = (
                list(rows.values()) if tenant_id is None else by_tenant[tenant_id]
            )
    return found


def matching_statement(event_type: str, tenants: Iterable[str] | None) -> Select[Any]:
    """The subscribers to `event_type` of these tenants, or of all; a subscription may come more
    than once."""
    patterns, subscriptions, endpoints = _PATTERNS.c, _SUBSCRIPTIONS.c, _ENDPOINTS.c
    statement = (
        select(
            subscriptions.id,
            subscriptions.tenant_id,
            subscriptions.endpoint_id,
            subscriptions.payload,
            endpoints.state,
        )
        .join_from(_PATTERNS, _SUBSCRIPTIONS, patterns.subscription_id == subscriptions.id)
        .join(_ENDPOINTS, subscriptions.endpoint_id == endpoints.id)
        .where(
            patterns.pattern.in_(matching_patterns(event_type)),
            subscriptions.active,
            endpoints.deleted_at.is_(None),
        )
    )
    if tenants is None:
        return statement
    return statement.where(patterns.tenant_id.in_(sorted(tenants)))

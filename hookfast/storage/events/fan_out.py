"""Finds an event's subscribers by looking up the few patterns that can match its type in an index.
Polled endpoints are not included: their events are found when they poll (see `poll`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlalchemy import Table, Text, bindparam, cast, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.events.event_type import matching_patterns
from hookfast.storage.database.prepared import AnyOf, Prepared
from hookfast.storage.tables import Endpoint, Subscription, SubscriptionPattern

_PATTERNS: Table = SubscriptionPattern.__table__
_SUBSCRIPTIONS: Table = Subscription.__table__
_ENDPOINTS: Table = Endpoint.__table__

Audience: TypeAlias = "tuple[str, str | None]"
"""An event type, and the only tenant that may see the event. None: a broadcast to all tenants."""


@dataclass(frozen=True, slots=True)
class Subscriber:
    """An active subscription to a push endpoint that is not deleted."""

    subscription_id: str
    tenant_id: str
    endpoint_id: str
    payload: str
    endpoint_state: str
    filter: str | None
    """The JSON text of its content filter, which is not applied yet."""
    ordered: bool = False


async def find_subscribers(
    connection: AsyncConnection, audiences: Iterable[Audience]
) -> dict[Audience, list[Subscriber]]:
    """Return the subscribers of each audience, with each subscription once even if several of its
    patterns match. Their filters are not applied yet (see `filtering`).

    Runs one statement per event type, which probes its patterns (15 keys for three parts, 127 for
    six) for each of its tenants. One statement for all types would probe every type's keys for
    every tenant.
    """
    tenants_of: defaultdict[str, set[str | None]] = defaultdict(set)
    for event_type, tenant_id in audiences:
        tenants_of[event_type].add(tenant_id)
    found: dict[Audience, list[Subscriber]] = {}
    for event_type, tenants in tenants_of.items():
        named = {tenant for tenant in tenants if tenant is not None}
        statement, given = matching(event_type, None if None in tenants else named)
        found_rows = await statement.rows(connection, given)
        # a dictionary instead of DISTINCT: no sort, and the order of the look-up is kept
        rows = {row[0]: Subscriber(*row) for row in found_rows}
        by_tenant: defaultdict[str, list[Subscriber]] = defaultdict(list)
        for subscriber in rows.values():
            by_tenant[subscriber.tenant_id].append(subscriber)
        for tenant_id in tenants:
            found[event_type, tenant_id] = (
                list(rows.values()) if tenant_id is None else by_tenant[tenant_id]
            )
    return found


_OF_ALL = (
    select(
        _SUBSCRIPTIONS.c.id,
        _SUBSCRIPTIONS.c.tenant_id,
        _SUBSCRIPTIONS.c.endpoint_id,
        _SUBSCRIPTIONS.c.payload,
        _ENDPOINTS.c.state,
        cast(_SUBSCRIPTIONS.c.filter, Text),  # as text: parsing it would take longer
        or_(_SUBSCRIPTIONS.c.ordered, _ENDPOINTS.c.ordered).label("ordered"),
    )
    .join_from(_PATTERNS, _SUBSCRIPTIONS, _PATTERNS.c.subscription_id == _SUBSCRIPTIONS.c.id)
    .join(_ENDPOINTS, _SUBSCRIPTIONS.c.endpoint_id == _ENDPOINTS.c.id)
    .where(
        AnyOf(_PATTERNS.c.pattern, "patterns"),
        _SUBSCRIPTIONS.c.active,
        _ENDPOINTS.c.deleted_at.is_(None),
        _ENDPOINTS.c.mode == "push",
    )
)
_POLLED_RAW = (
    select(_PATTERNS.c.tenant_id)
    .join_from(_PATTERNS, _SUBSCRIPTIONS, _PATTERNS.c.subscription_id == _SUBSCRIPTIONS.c.id)
    .join(_ENDPOINTS, _SUBSCRIPTIONS.c.endpoint_id == _ENDPOINTS.c.id)
    .where(
        AnyOf(_PATTERNS.c.pattern, "patterns"),
        _PATTERNS.c.tenant_id == bindparam("tenant"),
        _SUBSCRIPTIONS.c.active,
        _SUBSCRIPTIONS.c.payload == "raw",
        _ENDPOINTS.c.deleted_at.is_(None),
        _ENDPOINTS.c.mode != "push",
    )
    .limit(1)
)
_MATCHING = Prepared(_OF_ALL)
_MATCHING_OF_TENANTS = Prepared(_OF_ALL.where(AnyOf(_PATTERNS.c.tenant_id, "tenants")))
# PostgreSQL keeps the plan for one tenant; for an array of one it would plan each time (0.2 ms)
_MATCHING_OF_TENANT = Prepared(_OF_ALL.where(_PATTERNS.c.tenant_id == bindparam("tenant")))


async def is_polled_raw(connection: AsyncConnection, event_type: str, tenant_id: str) -> bool:
    """Whether a polled endpoint of this tenant gets such events with payload `raw`."""
    patterns = list(matching_patterns(event_type))
    found = await connection.execute(_POLLED_RAW, {"patterns": patterns, "tenant": tenant_id})
    return found.first() is not None


def matching(event_type: str, tenants: Iterable[str] | None) -> tuple[Prepared, dict[str, Any]]:
    """Return the statement, with its parameters, that finds subscribers to `event_type` of these
    tenants (None: of all). Its result may contain a subscription more than once."""
    patterns = list(matching_patterns(event_type))
    if tenants is None:
        return _MATCHING, {"patterns": patterns}
    several = sorted(tenants)
    if len(several) == 1:
        return _MATCHING_OF_TENANT, {"patterns": patterns, "tenant": several[0]}
    return _MATCHING_OF_TENANTS, {"patterns": patterns, "tenants": several}

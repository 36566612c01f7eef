"""Who wants an event sent: an index look-up of the few patterns that can match its type. Endpoints
that are polled are not among them: what they want is found when they ask (see `poll`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlalchemy import Select, Table, bindparam, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.events.event_type import matching_patterns
from hookfast.storage.tables import Endpoint, Subscription, SubscriptionPattern

_PATTERNS: Table = SubscriptionPattern.__table__
_SUBSCRIPTIONS: Table = Subscription.__table__
_ENDPOINTS: Table = Endpoint.__table__

Audience: TypeAlias = "tuple[str, str | None]"
"""An event type, and the one tenant that may see it; None is a broadcast to every tenant."""


@dataclass(frozen=True, slots=True)
class Subscriber:
    """An active subscription to an endpoint that is sent to and not deleted."""

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
        found_rows = await connection.execute(
            *matching(event_type, None if None in tenants else named)
        )
        # a dictionary and not DISTINCT: it needs no sort and keeps the order of the look-up
        rows = {row.id: Subscriber(*row) for row in found_rows}
        by_tenant: defaultdict[str, list[Subscriber]] = defaultdict(list)
        for subscriber in rows.values():
            by_tenant[subscriber.tenant_id].append(subscriber)
        for tenant_id in tenants:
            found[event_type, tenant_id] = (
                list(rows.values()) if tenant_id is None else by_tenant[tenant_id]
            )
    return found


# Made once: building a statement anew for every event costs as much as running it.
_MATCHING = (
    select(
        _SUBSCRIPTIONS.c.id,
        _SUBSCRIPTIONS.c.tenant_id,
        _SUBSCRIPTIONS.c.endpoint_id,
        _SUBSCRIPTIONS.c.payload,
        _ENDPOINTS.c.state,
    )
    .join_from(_PATTERNS, _SUBSCRIPTIONS, _PATTERNS.c.subscription_id == _SUBSCRIPTIONS.c.id)
    .join(_ENDPOINTS, _SUBSCRIPTIONS.c.endpoint_id == _ENDPOINTS.c.id)
    .where(
        _PATTERNS.c.pattern.in_(bindparam("patterns", expanding=True)),
        _SUBSCRIPTIONS.c.active,
        _ENDPOINTS.c.deleted_at.is_(None),
        _ENDPOINTS.c.mode == "push",
    )
)
_MATCHING_OF_TENANTS = _MATCHING.where(
    _PATTERNS.c.tenant_id.in_(bindparam("tenants", expanding=True))
)


def matching(
    event_type: str, tenants: Iterable[str] | None
) -> tuple[Select[Any], dict[str, list[str]]]:
    """The statement, and its parameters, that finds the subscribers to `event_type` of these
    tenants, or of all; a subscription may come more than once."""
    patterns = list(matching_patterns(event_type))
    if tenants is None:
        return _MATCHING, {"patterns": patterns}
    return _MATCHING_OF_TENANTS, {"patterns": patterns, "tenants": sorted(tenants)}

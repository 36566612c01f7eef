"""Statements on `subscription_mappings`: the latest mapping of each subscription that had one."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from sqlalchemy import Select, Table, bindparam, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.storage.database.upsert import insert_into
from hookfast.storage.tables import Subscription, SubscriptionMapping

_MAPPINGS: Table = SubscriptionMapping.__table__
_M = _MAPPINGS.c

_FIND: Final[Select[tuple[str, str]]] = select(_M.subscription_id, _M.mapping).where(
    _M.subscription_id.in_(bindparam("ids", expanding=True))
)


async def keep(connection: AsyncConnection, subscription: Subscription) -> None:
    """Keep the subscription's mapping, if it has one, for its deliveries."""
    if subscription.mapping is None:
        return
    row = {"subscription_id": subscription.id, "mapping": subscription.mapping}
    statement = insert_into(connection, _MAPPINGS)
    await connection.execute(
        statement.on_conflict_do_update(
            index_elements=["subscription_id"], set_={"mapping": statement.excluded.mapping}
        ),
        [row],
    )


async def latest(connection: AsyncConnection, subscription_ids: Collection[str]) -> dict[str, str]:
    """Return the latest mappings of these subscriptions, by subscription id, also of those that are
    deleted. Subscriptions that never had one are left out."""
    if not subscription_ids:
        return {}
    rows = await connection.execute(_FIND, {"ids": sorted(subscription_ids)})
    return {row.subscription_id: row.mapping for row in rows}

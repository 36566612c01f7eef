"""Statements on `audit`, the log of changes: add an entry, list entries, and delete old ones with
`expire`. Triggers prevent all other deletions.

An entry is added in the transaction of its change: both are committed, or neither. Entries do not
refer to each other, so that writers do not wait for one another.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final

import structlog
from sqlalchemy import Table, delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.audit import SYSTEM, Actor, AuditAction, AuditedChange, differences
from hookfast.ids import first_id_at, new_id
from hookfast.logs.kind import Kind
from hookfast.storage.database.after_commit import after_commit
from hookfast.storage.database.keyset import created_between, narrowest_first, newest_first
from hookfast.storage.database.rows import fetch_all
from hookfast.storage.database.upsert import insert_into
from hookfast.storage.tables import AuditEntry, AuditHorizon

log = structlog.get_logger()

_AUDIT: Table = AuditEntry.__table__
_C = _AUDIT.c
_HORIZON: Table = AuditHorizon.__table__
_HORIZON_ID = 1
"""The id of the horizon's only row."""
_IDS: Final = frozenset({"delivery_id", "endpoint_id", "job_id", "source_id", "subscription_id"})
"""The fields of log lines by which the lines about one thing are found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Selects the entries that match all given fields, from `since` to before `until`."""

    tenant_id: str | None = None
    resource_id: str | None = None
    key_id: str | None = None
    action: AuditAction | None = None
    since: datetime | None = None
    until: datetime | None = None


async def record(
    connection: AsyncConnection, change: AuditedChange, *, actor: Actor, now: datetime
) -> None:
    """Add an entry for a change of this transaction, and log the change after the commit."""
    await connection.execute(
        insert(_AUDIT).values(
            id=new_id("aud", now),
            at=now,
            tenant_id=change.tenant_id,
            actor=actor.kind,
            key_id=actor.key_id,
            action=change.action,
            resource=change.resource,
            resource_id=change.resource_id,
            changes=change.changes,
            request_id=actor.request_id,
            client_address=actor.client_address,
        )
    )
    after_commit(connection, partial(_log, change, actor))


def _log(change: AuditedChange, actor: Actor) -> None:
    line = {
        "action": change.action,
        "resource": change.resource,
        "resource_id": change.resource_id,
        "tenant_id": change.tenant_id,
        "actor": actor.kind,
        "key_id": actor.key_id,
        "request_id": actor.request_id,
    }
    if (name := f"{change.resource}_id") in _IDS:
        line[name] = change.resource_id
    given = {name: value for name, value in line.items() if value is not None}
    log.info("A change was recorded.", kind=Kind.CHANGE, **given)


async def list_page(
    connection: AsyncConnection, chosen: AuditFilter, *, after: str | None, limit: int
) -> list[AuditEntry]:
    """Return the newest `limit` matching entries beyond the id `after`."""
    statement = select(_AUDIT).where(
        *narrowest_first(_AUDIT, chosen, ("resource_id", "key_id", "tenant_id", "action")),
        *created_between(_C.id, "aud", chosen.since, chosen.until),
    )
    page = newest_first(statement, _C.id, after=after, limit=limit)
    return await fetch_all(connection, page, AuditEntry)


async def expire(
    connection: AsyncConnection, *, before: datetime, limit: int, now: datetime
) -> int:
    """Delete the oldest entries from before this time, at most `limit`, and return how many.

    It is the only way to delete entries. First it moves the horizon, the time since which the log
    is complete and which never moves back, and logs that it did; the triggers only let entries be
    deleted that are older.
    """
    if await _move_horizon(connection, before):
        moved = AuditedChange(
            action="audit.expire",
            resource="audit",
            resource_id="audit",
            tenant_id=None,
            changes=differences({}, {"complete_since": before}),
        )
        await record(connection, moved, actor=SYSTEM, now=now)
    oldest = select(_C.id).where(_C.id < first_id_at("aud", before)).order_by(_C.id).limit(limit)
    deleted = await connection.execute(delete(_AUDIT).where(_C.id.in_(oldest)))
    return deleted.rowcount


async def _move_horizon(connection: AsyncConnection, to: datetime) -> bool:
    """Move the horizon, and return whether it moved: it may be at this time already, or later."""
    row = insert_into(connection, _HORIZON).values(id=_HORIZON_ID, complete_since=to)
    result = await connection.execute(
        row.on_conflict_do_update(
            index_elements=["id"],
            set_={"complete_since": row.excluded.complete_since},
            where=_HORIZON.c.complete_since < row.excluded.complete_since,
        )
    )
    return result.rowcount == 1

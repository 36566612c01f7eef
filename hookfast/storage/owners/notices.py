"""Statements on `notices`: what owners are to be told, and what asks for their mail to be sent.

What the sender does with them is in `notice_batches`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Table, func, literal_column, select, update
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.ids import new_id
from hookfast.owners.digest import WORKFLOW_TYPE, MailInput, workflow_id
from hookfast.owners.notice import NoticeKind, NoticeStatus, one_per_owner, owner_hash
from hookfast.storage.database.keyset import newest_first
from hookfast.storage.tables import Endpoint, Notice
from hookfast.workflow_request import WorkflowRequest

_NOTICES: Table = Notice.__table__
_C = _NOTICES.c
_ENDPOINTS: Table = Endpoint.__table__

# Literal: no planner matches a bound parameter with a partial index.
PENDING = _C.status == literal_column(f"'{NoticeStatus.PENDING}'")
# Nothing about the status: SQLite would walk the index of everything that waits, which is long
# while the mail server is away. What is finished counts as conducted.
_ASKS = _C.workflow_started_at.is_(None)

_NEWEST = 50
_MARKED_AT_ONCE = 1_000


async def add(
    connection: AsyncConnection,
    *,
    endpoint_id: str,
    episode: int,
    kind: NoticeKind,
    facts: Mapping[str, Any],
    at: datetime,
) -> int:
    """Have every owner of an endpoint told, once per (endpoint, episode, kind): what was added
    before is not added again. `facts` as `hookfast.notice.Facts` reads them. Returns how many
    notices were added; an endpoint that was deleted or has no owners gets none."""
    found = await connection.execute(
        select(_ENDPOINTS.c.tenant_id, _ENDPOINTS.c.owner_emails).where(
            _ENDPOINTS.c.id == endpoint_id, _ENDPOINTS.c.deleted_at.is_(None)
        )
    )
    endpoint = found.one_or_none()
    if endpoint is None or not endpoint.owner_emails:
        return 0
    rows = [
        {
            "id": new_id("ntc", at),
            "endpoint_id": endpoint_id,
            "tenant_id": endpoint.tenant_id,
            "episode": episode,
            "kind": kind.value,
            "email": email,
            "owner_hash": owner_hash(email),
            "facts": dict(facts),
            "status": NoticeStatus.PENDING.value,
            "tries": 0,
            "created_at": at,
        }
        for email in one_per_owner(endpoint.owner_emails)
    ]
    insert = postgresql_insert if connection.dialect.name == "postgresql" else sqlite_insert
    added = await connection.execute(
        insert(_NOTICES)
        .values(rows)
        .on_conflict_do_nothing(index_elements=["endpoint_id", "episode", "kind", "email"])
        .returning(_C.id)
    )
    return len(added.all())


async def list_of_endpoint(connection: AsyncConnection, endpoint_id: str) -> list[Notice]:
    """The newest 50 notices about an endpoint: what was sent, waits (`error` says why) or was
    refused."""
    statement = select(_NOTICES).where(_C.endpoint_id == endpoint_id)
    rows = await connection.execute(newest_first(statement, _C.id, after=None, limit=_NEWEST))
    return [Notice(**row) for row in rows.mappings()]


async def request_workflow(connection: AsyncConnection, *, started_before: datetime) -> int:
    """Ask once more for what has waited since then, and return how many notices that are. Their
    workflow was ended by hand, or lost with Temporal's data; one that still runs is only woken."""
    result = await connection.execute(
        update(_NOTICES)
        .where(PENDING, _C.workflow_started_at < started_before)
        .values(workflow_started_at=None)
    )
    return result.rowcount


class MailWorkflowRequests:
    """Notices ask for the workflow of their owner (`dispatch.workflow_starter`): one per owner,
    however many notices there are."""

    def __init__(self, *, gather: timedelta, digest_every: timedelta) -> None:
        self._gather = gather
        self._digest_every = digest_every

    async def find(self, connection: AsyncConnection, *, limit: int) -> list[WorkflowRequest]:
        """The owners with news, at most `limit`, who waited longest first."""
        owners = (
            select(_C.owner_hash)
            .where(_ASKS)
            .group_by(_C.owner_hash)
            .order_by(func.min(_C.id))
            .limit(limit)
        )
        rows = await connection.execute(
            select(_C.owner_hash, _C.id).where(_ASKS, _C.owner_hash.in_(owners)).order_by(_C.id)
        )
        seen: dict[str, list[str]] = {}
        for owner, notice_id in rows:
            seen.setdefault(owner, []).append(notice_id)
        return [self._wanted(owner, notice_ids) for owner, notice_ids in seen.items()]

    async def mark(
        self, connection: AsyncConnection, wanted: Sequence[WorkflowRequest], *, now: datetime
    ) -> None:
        """Mark exactly the notices that were seen: one that was committed since keeps asking."""
        seen = [notice_id for one in wanted for notice_id in one.key]
        for start in range(0, len(seen), _MARKED_AT_ONCE):
            some = seen[start : start + _MARKED_AT_ONCE]
            await connection.execute(
                update(_NOTICES).where(_C.id.in_(some)).values(workflow_started_at=now)
            )

    def _wanted(self, owner: str, notice_ids: Sequence[str]) -> WorkflowRequest:
        order = MailInput(
            owner_hash=owner,
            gather_seconds=self._gather.total_seconds(),
            digest_every_seconds=self._digest_every.total_seconds(),
        )
        return WorkflowRequest(
            key=tuple(notice_ids),
            workflow=WORKFLOW_TYPE,
            workflow_id=workflow_id(owner),
            argument=order,
            summary="mail to one owner",
        )

"""Statements on `notices`: adds notices to owners, lists them, and requests the workflows that send
them. How they go into mails is in `digests`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Table, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.ids import new_id
from hookfast.owners.digest import WORKFLOW_TYPE, MailInput, workflow_id
from hookfast.owners.notice import NoticeKind, NoticeStatus, one_per_owner, owner_hash
from hookfast.storage.database.keyset import newest_first
from hookfast.storage.database.planner_hints import constant
from hookfast.storage.database.rows import fetch_all
from hookfast.storage.database.upsert import insert_into
from hookfast.storage.tables import Endpoint, Notice
from hookfast.workflow_request import WorkflowRequest

_NOTICES: Table = Notice.__table__
_C = _NOTICES.c
_ENDPOINTS: Table = Endpoint.__table__

PENDING = _C.status == constant(NoticeStatus.PENDING.value)
# Without the status: SQLite would walk the index of all pending notices, which is long while the
# mail server is away. A finished notice has `workflow_started_at` too.
_NEEDS_WORKFLOW = _C.workflow_started_at.is_(None)

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
    """Add a notice for each owner of an endpoint, once per (endpoint, episode, kind), and return
    how many were added. A deleted endpoint, or one without owners, gets none. `facts` are as
    `hookfast.owners.notice.Facts` reads them."""
    rows = await connection.execute(
        select(_ENDPOINTS.c.tenant_id, _ENDPOINTS.c.owner_emails).where(
            _ENDPOINTS.c.id == endpoint_id, _ENDPOINTS.c.deleted_at.is_(None)
        )
    )
    endpoint = rows.one_or_none()
    if endpoint is None or not endpoint.owner_emails:
        return 0
    notices = [
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
    added = await connection.execute(
        insert_into(connection, _NOTICES)
        .values(notices)
        .on_conflict_do_nothing(index_elements=["endpoint_id", "episode", "kind", "email"])
        .returning(_C.id)
    )
    return len(added.all())


async def list_of_endpoint(connection: AsyncConnection, endpoint_id: str) -> list[Notice]:
    """Return an endpoint's newest 50 notices: sent, waiting (`error` says why), or rejected."""
    statement = select(_NOTICES).where(_C.endpoint_id == endpoint_id)
    page = newest_first(statement, _C.id, after=None, limit=_NEWEST)
    return await fetch_all(connection, page, Notice)


async def request_stalled_workflows(
    connection: AsyncConnection, *, started_before: datetime
) -> int:
    """Request a workflow again for pending notices whose workflow was started before that time, and
    return how many notices that are. Their workflow was terminated by hand, or lost with Temporal's
    data; a running one is only woken."""
    result = await connection.execute(
        update(_NOTICES)
        .where(PENDING, _C.workflow_started_at < started_before)
        .values(workflow_started_at=None)
    )
    return result.rowcount


class MailWorkflowRequests:
    """Workflow requests of notices (`dispatch.workflow_starter`): one per owner, however many
    notices the owner has."""

    def __init__(self, *, gather: timedelta, digest_every: timedelta) -> None:
        self._gather = gather
        self._digest_every = digest_every

    async def find(self, connection: AsyncConnection, *, limit: int) -> list[WorkflowRequest]:
        """Return requests for at most `limit` owners with new notices, longest waiting first."""
        owners = (
            select(_C.owner_hash)
            .where(_NEEDS_WORKFLOW)
            .group_by(_C.owner_hash)
            .order_by(func.min(_C.id))
            .limit(limit)
        )
        rows = await connection.execute(
            select(_C.owner_hash, _C.id)
            .where(_NEEDS_WORKFLOW, _C.owner_hash.in_(owners))
            .order_by(_C.id)
        )
        notice_ids: dict[str, list[str]] = {}
        for owner, notice_id in rows:
            notice_ids.setdefault(owner, []).append(notice_id)
        return [self._request(owner, ids) for owner, ids in notice_ids.items()]

    async def mark(
        self, connection: AsyncConnection, requests: Sequence[WorkflowRequest], *, now: datetime
    ) -> None:
        """Mark the notices of these requests. A notice that was added since is not marked."""
        notice_ids = [notice_id for one in requests for notice_id in one.key]
        for start in range(0, len(notice_ids), _MARKED_AT_ONCE):
            some = notice_ids[start : start + _MARKED_AT_ONCE]
            await connection.execute(
                update(_NOTICES).where(_C.id.in_(some)).values(workflow_started_at=now)
            )

    def _request(self, owner: str, notice_ids: Sequence[str]) -> WorkflowRequest:
        input = MailInput(
            owner_hash=owner,
            gather_seconds=self._gather.total_seconds(),
            digest_every_seconds=self._digest_every.total_seconds(),
        )
        return WorkflowRequest(
            key=tuple(notice_ids),
            workflow=WORKFLOW_TYPE,
            workflow_id=workflow_id(owner),
            argument=input,
            summary="mail to one owner",
        )

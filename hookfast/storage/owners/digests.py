"""Statements on `notices` for sending mail: fix which notices go into one mail, then record the
result.

The order protects against a crash between the mail server's acceptance and our record of it: the
batch and its Message-ID are committed first, so that a mail that is sent twice is the same mail.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Table, and_, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.owners.digest import WaitingKind
from hookfast.owners.notice import NoticeKind, NoticeStatus
from hookfast.storage.database.planner_hints import undelivered
from hookfast.storage.owners.notices import PENDING
from hookfast.storage.tables import Delivery, Endpoint, Notice

_NOTICES: Table = Notice.__table__
_C = _NOTICES.c
_ENDPOINTS: Table = Endpoint.__table__
_DELIVERIES: Table = Delivery.__table__

_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchedNotice:
    """A pending notice with its endpoint's data. `owners` is empty if the endpoint was deleted."""

    id: str
    endpoint_id: str
    tenant_id: str
    email: str
    facts: Mapping[str, Any]
    message_id: str | None
    url: str
    description: str
    owners: Sequence[str]


async def waiting_kinds(
    connection: AsyncConnection, owner_hash: str, *, digest_every: timedelta, now: datetime
) -> list[WaitingKind]:
    """Return the kinds of notices that wait for an owner. A kind rests until `digest_every` after
    its last mail, unless a mail of this kind was begun and must be finished."""
    rows = await connection.execute(
        select(_C.kind, func.count(), func.count(_C.message_id))
        .where(PENDING, _C.owner_hash == owner_hash)
        .group_by(_C.kind)
        .order_by(_C.kind)
    )
    kinds = []
    for kind, notices, begun in rows.all():
        rest = 0.0
        if not begun:
            last = await _last_sent(connection, owner_hash, kind)
            if last is not None:
                rest = max(0.0, (last + digest_every - now).total_seconds())
        kinds.append(WaitingKind(NoticeKind(kind), notices, rest))
    return kinds


async def read_batch(
    connection: AsyncConnection, owner_hash: str, kind: NoticeKind
) -> list[BatchedNotice]:
    """Return the notices of an owner's next mail, oldest first: those of a mail that was begun,
    else all that wait. They are locked until the transaction ends."""
    e = _ENDPOINTS.c
    rows = await connection.execute(
        select(
            _C.id,
            _C.endpoint_id,
            _C.email,
            _C.facts,
            _C.message_id,
            e.tenant_id,
            e.url,
            e.description,
            e.owner_emails,
            e.deleted_at,
        )
        .join_from(_NOTICES, _ENDPOINTS, e.id == _C.endpoint_id)
        .where(PENDING, _C.owner_hash == owner_hash, _C.kind == kind.value)
        .order_by(_C.id)
        .with_for_update(of=_NOTICES)
    )
    notices = []
    for row in rows.mappings():
        columns = dict(row)
        owners, deleted_at = columns.pop("owner_emails"), columns.pop("deleted_at")
        notices.append(BatchedNotice(**columns, owners=owners if deleted_at is None else ()))
    begun = next((one.message_id for one in notices if one.message_id is not None), None)
    return [one for one in notices if one.message_id == begun]


async def count_waiting(connection: AsyncConnection, endpoint_ids: Iterable[str]) -> dict[str, int]:
    """Count the deliveries that wait for each of these endpoints to recover, without endpoints that
    have none."""
    c = _DELIVERIES.c
    ids = sorted(set(endpoint_ids))
    counts: dict[str, int] = {}
    for start in range(0, len(ids), _AT_ONCE):
        rows = await connection.execute(
            select(c.endpoint_id, func.count())
            .where(
                c.endpoint_id.in_(ids[start : start + _AT_ONCE]),
                *undelivered(c.status, "held", "retrying"),
            )
            .group_by(c.endpoint_id)
        )
        counts.update({endpoint_id: count for endpoint_id, count in rows.all()})
    return counts


async def begin(connection: AsyncConnection, notice_ids: Sequence[str], message_id: str) -> None:
    """Assign these notices to the mail with this Message-ID."""
    await _set(connection, notice_ids, {"message_id": message_id})


async def mark_sent(
    connection: AsyncConnection, notice_ids: Sequence[str], *, at: datetime
) -> None:
    """Record that the mail with these notices was sent."""
    values = {"sent_at": at, "error": None, "tries": _C.tries + 1}
    await _finish(connection, notice_ids, NoticeStatus.SENT, values)


async def mark_refused(
    connection: AsyncConnection, notice_ids: Sequence[str], *, error: str
) -> None:
    """Record that the mail server rejected the mail with these notices for good, with `error`."""
    values = {"error": error, "tries": _C.tries + 1}
    await _finish(connection, notice_ids, NoticeStatus.REFUSED, values)


async def mark_delayed(
    connection: AsyncConnection, notice_ids: Sequence[str], *, error: str
) -> None:
    """Record that the mail with these notices could not be sent this time, because of `error`."""
    await _set(connection, notice_ids, {"error": error, "tries": _C.tries + 1})


async def mark_dropped(
    connection: AsyncConnection, notice_ids: Sequence[str], *, error: str
) -> None:
    """Record that these notices will not be sent, for the reason in `error`."""
    await _finish(connection, notice_ids, NoticeStatus.DROPPED, {"error": error})


async def _last_sent(connection: AsyncConnection, owner_hash: str, kind: str) -> datetime | None:
    found = await connection.execute(
        select(_C.sent_at)
        .where(_C.owner_hash == owner_hash, _C.kind == kind, _C.sent_at.is_not(None))
        .order_by(_C.sent_at.desc())
        .limit(1)
    )
    last: datetime | None = found.scalar_one_or_none()
    return last


async def _finish(
    connection: AsyncConnection,
    notice_ids: Sequence[str],
    status: NoticeStatus,
    values: Mapping[str, Any],
) -> None:
    # A running workflow may be faster than the workflow starter: no workflow is needed then.
    started = func.coalesce(_C.workflow_started_at, _C.created_at)
    await _set(
        connection, notice_ids, {**values, "status": status.value, "workflow_started_at": started}
    )


async def _set(
    connection: AsyncConnection, notice_ids: Sequence[str], values: Mapping[str, Any]
) -> None:
    for start in range(0, len(notice_ids), _AT_ONCE):
        some = notice_ids[start : start + _AT_ONCE]
        # Only pending ones: a result that a concurrent activity recorded stays.
        await connection.execute(
            update(_NOTICES).where(and_(PENDING, _C.id.in_(some))).values(**values)
        )

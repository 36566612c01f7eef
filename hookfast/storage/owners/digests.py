"""What the sender of mail does with `notices`: fix what goes into one mail, then say what became
of it.

The order protects against a crash between the mail server's yes and our record of it: the batch and
its Message-ID are committed first, so that the mail, should it go out twice, is the same mail.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Table, and_, func, literal_column, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.owners.digest import WaitingKind
from hookfast.owners.notice import NoticeKind, NoticeStatus
from hookfast.storage.owners.notices import PENDING
from hookfast.storage.tables import Delivery, Endpoint, Notice

_NOTICES: Table = Notice.__table__
_C = _NOTICES.c
_ENDPOINTS: Table = Endpoint.__table__
_DELIVERIES: Table = Delivery.__table__

_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchedNotice:
    """A pending notice with its endpoint. `owners` is empty when the endpoint was deleted."""

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
    """What waits for one owner, by kind. A kind rests until `digest_every` after its last mail,
    unless a mail of it was begun and has to be finished."""
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
    """The notices of the next mail, oldest first: those of one that was begun, else all that wait.
    Locked until the transaction ends."""
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
    notices = [
        BatchedNotice(
            id=row.id,
            endpoint_id=row.endpoint_id,
            tenant_id=row.tenant_id,
            email=row.email,
            facts=row.facts,
            message_id=row.message_id,
            url=row.url,
            description=row.description,
            owners=() if row.deleted_at is not None else row.owner_emails,
        )
        for row in rows
    ]
    begun = next((one.message_id for one in notices if one.message_id is not None), None)
    return [one for one in notices if one.message_id == begun]


async def count_waiting(connection: AsyncConnection, endpoint_ids: Iterable[str]) -> dict[str, int]:
    """How many deliveries wait for each of these endpoints to work again; those without any are
    left out."""
    c = _DELIVERIES.c
    wanted = sorted(set(endpoint_ids))
    counts: dict[str, int] = {}
    for start in range(0, len(wanted), _AT_ONCE):
        rows = await connection.execute(
            select(c.endpoint_id, func.count())
            .where(
                c.endpoint_id.in_(wanted[start : start + _AT_ONCE]),
                c.status.in_([literal_column("'held'"), literal_column("'retrying'")]),
                c.status != literal_column("'delivered'"),  # what the partial index says
            )
            .group_by(c.endpoint_id)
        )
        counts.update({endpoint_id: count for endpoint_id, count in rows.all()})
    return counts


async def begin(connection: AsyncConnection, notice_ids: Sequence[str], message_id: str) -> None:
    """Fix that these go into the mail `message_id`."""
    await _set(connection, notice_ids, {"message_id": message_id})


async def mark_sent(
    connection: AsyncConnection, notice_ids: Sequence[str], *, at: datetime
) -> None:
    """Their mail is away."""
    values = {"sent_at": at, "error": None, "tries": _C.tries + 1}
    await _finish(connection, notice_ids, NoticeStatus.SENT, values)


async def mark_refused(
    connection: AsyncConnection, notice_ids: Sequence[str], *, error: str
) -> None:
    """The mail server will never take their mail; `error` is what it said."""
    values = {"error": error, "tries": _C.tries + 1}
    await _finish(connection, notice_ids, NoticeStatus.REFUSED, values)


async def mark_delayed(
    connection: AsyncConnection, notice_ids: Sequence[str], *, error: str
) -> None:
    """Their mail did not get away this time; `error` says why."""
    await _set(connection, notice_ids, {"error": error, "tries": _C.tries + 1})


async def mark_dropped(
    connection: AsyncConnection, notice_ids: Sequence[str], *, error: str
) -> None:
    """Nobody is to be told any more; `error` says why."""
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
    # A workflow that runs may be faster than the workflow_starter: nothing is left to ask for then.
    conducted = func.coalesce(_C.workflow_started_at, _C.created_at)
    await _set(
        connection, notice_ids, {**values, "status": status.value, "workflow_started_at": conducted}
    )


async def _set(
    connection: AsyncConnection, notice_ids: Sequence[str], values: Mapping[str, Any]
) -> None:
    for start in range(0, len(notice_ids), _AT_ONCE):
        some = notice_ids[start : start + _AT_ONCE]
        # Only what still waits: what a twin said of it stays.
        await connection.execute(
            update(_NOTICES).where(and_(PENDING, _C.id.in_(some))).values(**values)
        )

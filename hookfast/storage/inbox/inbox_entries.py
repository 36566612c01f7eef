"""Statements on `inbox`. Lists leave the bodies where they are: they can be large."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

from sqlalchemy import Select, Table, bindparam, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.storage.database.keyset import newest_first
from hookfast.storage.database.planner_hints import Implied, Residual
from hookfast.storage.tables import InboxEntry

_INBOX: Table = InboxEntry.__table__
_C = _INBOX.c
_SUMMARY = (
    *(column for column in _C if column.name not in ("body", "headers")),
    func.length(_C.body).label("size"),
)

InboxStatus: TypeAlias = Literal["accepted", "suppressed", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxFilter:
    """Which entries: those for which everything given is so."""

    source_id: str | None = None
    tenant_id: str | None = None
    status: InboxStatus | None = None
    event_type: str | None = None

    def fits(self, entry: EntrySummary) -> bool:
        """Whether an entry is one of them."""
        wanted = (self.source_id, self.tenant_id, self.status, self.event_type)
        given = (entry.source_id, entry.tenant_id, entry.status, entry.event_type)
        return all(want is None or want == have for want, have in zip(wanted, given, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class EntrySummary:
    """An entry without its body, whose length in bytes is `size`, and without headers."""

    id: str
    source_id: str
    tenant_id: str
    key: str
    event_type: str
    business_key: str | None
    payload_sha256: str
    content_type: str
    status: InboxStatus
    event_id: str | None
    suppressed_by: str | None
    last_error: str | None
    duplicates: int
    conflicts: int
    conflict_sha256: str | None
    received_at: datetime
    last_seen_at: datetime
    size: int


@dataclass(slots=True)
class Repeats:
    """Requests that came again for one entry."""

    last_at: datetime
    duplicates: int = 0
    conflicts: int = 0
    conflict_sha256: str | None = None


_ADD = insert(_INBOX)
_TIME = _C.last_seen_at.type
_REPEAT = (
    update(_INBOX)
    .where(_C.id == bindparam("b_id"))
    .values(
        duplicates=_C.duplicates + bindparam("b_duplicates"),
        conflicts=_C.conflicts + bindparam("b_conflicts"),
        conflict_sha256=func.coalesce(bindparam("b_sha256"), _C.conflict_sha256),
        last_seen_at=bindparam("b_at", type_=_TIME),
    )
)


async def add(connection: AsyncConnection, rows: Sequence[dict[str, Any]]) -> None:
    """Store new entries: a value for each column of InboxEntry."""
    if rows:
        await connection.execute(_ADD, rows)


async def repeat(connection: AsyncConnection, repeats: Mapping[str, Repeats]) -> None:
    """Count what came again, by entry."""
    rows = [
        {
            "b_id": inbox_id,
            "b_duplicates": one.duplicates,
            "b_conflicts": one.conflicts,
            "b_sha256": one.conflict_sha256,
            "b_at": one.last_at,
        }
        for inbox_id, one in sorted(repeats.items())  # in one order, whoever else counts
    ]
    if rows:
        await connection.execute(_REPEAT, rows)


async def get(
    connection: AsyncConnection, inbox_id: str, *, lock: bool = False
) -> InboxEntry | None:
    """One entry, with its body. `lock` keeps it from being changed until the transaction ends
    (SQLite's write transactions do anyway)."""
    statement = select(_INBOX).where(_C.id == inbox_id)
    rows = await connection.execute(statement.with_for_update() if lock else statement)
    row = rows.mappings().first()
    return None if row is None else InboxEntry(**row)


async def summaries(
    connection: AsyncConnection, inbox_ids: Collection[str]
) -> dict[str, EntrySummary]:
    """Those of these entries that are still kept, by id."""
    rows = await connection.execute(select(*_SUMMARY).where(_C.id.in_(sorted(inbox_ids))))
    return {row["id"]: EntrySummary(**row) for row in rows.mappings()}


async def list_page(
    connection: AsyncConnection, chosen: InboxFilter, *, after: str | None, limit: int
) -> list[EntrySummary]:
    """The newest `limit` entries that fit, beyond the id `after`."""
    rows = await connection.execute(page_statement(chosen, after=after, limit=limit))
    return [EntrySummary(**row) for row in rows.mappings()]


def page_statement(chosen: InboxFilter, *, after: str | None, limit: int) -> Select[Any]:
    """The statement of `list_page`. A source leads, else a tenant, else the status."""
    statement = select(*_SUMMARY)
    leads = chosen.source_id is not None
    if chosen.source_id is not None:
        statement = statement.where(_C.source_id == chosen.source_id)
    if chosen.tenant_id is not None:
        tenant = Residual(_C.tenant_id) if leads else _C.tenant_id
        statement = statement.where(tenant == chosen.tenant_id)
        leads = True
    if chosen.status is not None:
        status = Residual(_C.status) if leads else _C.status
        statement = statement.where(status == chosen.status)
        if chosen.status != "accepted" and not leads:
            statement = statement.where(Implied(_C.status != "accepted"))
    if chosen.event_type is not None:
        statement = statement.where(_C.event_type == chosen.event_type)
    return newest_first(statement, _C.id, after=after, limit=limit)


async def settle(
    connection: AsyncConnection,
    inbox_id: str,
    *,
    status: InboxStatus,
    event_id: str | None,
    suppressed_by: str | None,
) -> None:
    """Say what became of an entry that had failed."""
    await connection.execute(
        update(_INBOX)
        .where(_C.id == inbox_id)
        .values(status=status, event_id=event_id, suppressed_by=suppressed_by, last_error=None)
    )


@dataclass(frozen=True, slots=True)
class RawRequest:
    """What came in, to be sent on as it came."""

    body: bytes
    content_type: str
    headers: tuple[tuple[str, str], ...]


async def raw_requests(
    connection: AsyncConnection, inbox_ids: Iterable[str]
) -> dict[str, RawRequest]:
    """The requests of those of these entries that are still kept, by id."""
    rows = await connection.execute(
        select(_C.id, _C.body, _C.content_type, _C.headers).where(_C.id.in_(sorted(inbox_ids)))
    )
    return {
        row.id: RawRequest(
            row.body, row.content_type, tuple((name, value) for name, value in row.headers)
        )
        for row in rows
    }


async def sources_of(connection: AsyncConnection, inbox_ids: Collection[str]) -> dict[str, str]:
    """The sources of those of these entries that are still kept, by id."""
    rows = await connection.execute(select(_C.id, _C.source_id).where(_C.id.in_(sorted(inbox_ids))))
    return {row.id: row.source_id for row in rows}

"""Statements on `inbox`. Lists do not read the bodies, which can be large."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

from sqlalchemy import Table, bindparam, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.storage.database.keyset import created_between, narrowest_first, newest_first
from hookfast.storage.database.planner_hints import Implied
from hookfast.storage.database.rows import fetch_one
from hookfast.storage.database.small_body import small_body
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
    """Selects the entries that match all given fields, received from `since` to before `until`."""

    source_id: str | None = None
    tenant_id: str | None = None
    status: InboxStatus | None = None
    event_type: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def matches(self, entry: EntrySummary) -> bool:
        """Whether an entry matches the filter."""
        names = ("source_id", "tenant_id", "status", "event_type")
        return (
            all(getattr(self, name) in (None, getattr(entry, name)) for name in names)
            and (self.since is None or entry.received_at >= self.since)
            and (self.until is None or entry.received_at < self.until)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EntrySummary:
    """An inbox entry without its headers and its body, whose length in bytes is `size`."""

    id: str
    source_id: str
    tenant_id: str
    key: str
    event_type: str
    business_key: str | None
    hops: int
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


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryDetails(EntrySummary):
    """An inbox entry without its body."""

    headers: list[list[str]]


@dataclass(slots=True)
class Repeats:
    """The repeated requests of one inbox entry."""

    last_at: datetime
    duplicates: int = 0
    conflicts: int = 0
    conflict_sha256: str | None = None


_ADD = insert(_INBOX)
_TIME = _C.last_seen_at.type
_COUNT_REPEATS = (
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
    """Add entries, each with a value for every column of InboxEntry."""
    if rows:
        await connection.execute(_ADD, rows)


async def count_repeats(connection: AsyncConnection, repeats: Mapping[str, Repeats]) -> None:
    """Add to the entries' counts of repeated requests."""
    rows = [
        {
            "b_id": inbox_id,
            "b_duplicates": one.duplicates,
            "b_conflicts": one.conflicts,
            "b_sha256": one.conflict_sha256,
            "b_at": one.last_at,
        }
        for inbox_id, one in sorted(repeats.items())  # all transactions lock in the same order
    ]
    if rows:
        await connection.execute(_COUNT_REPEATS, rows)


async def get(connection: AsyncConnection, inbox_id: str) -> InboxEntry | None:
    """Return an entry with its body."""
    return await fetch_one(connection, select(_INBOX).where(_C.id == inbox_id), InboxEntry)


async def details(connection: AsyncConnection, inbox_id: str) -> EntryDetails | None:
    """Return an entry without its body."""
    statement = select(*_SUMMARY, _C.headers).where(_C.id == inbox_id)
    row = (await connection.execute(statement)).mappings().one_or_none()
    return None if row is None else EntryDetails(**row)


async def lock_status(connection: AsyncConnection, inbox_id: str) -> InboxStatus | None:
    """Return an entry's status, and keep the entry from being changed until the transaction ends
    (SQLite's write transactions do anyway)."""
    statement = select(_C.status).where(_C.id == inbox_id).with_for_update()
    status: InboxStatus | None = await connection.scalar(statement)
    return status


async def body_part(
    connection: AsyncConnection, inbox_id: str, *, start: int, size: int
) -> bytes | None:
    """Return at most `size` bytes of an entry's body from byte `start`; None if the entry is not
    kept any more."""
    part = func.substr(_C.body, start + 1, size, type_=_C.body.type)
    found: bytes | None = await connection.scalar(select(part).where(_C.id == inbox_id))
    return found


async def summaries(
    connection: AsyncConnection, inbox_ids: Collection[str]
) -> dict[str, EntrySummary]:
    """Return those of these entries that are still kept, by id."""
    rows = await connection.execute(select(*_SUMMARY).where(_C.id.in_(sorted(inbox_ids))))
    return {row["id"]: EntrySummary(**row) for row in rows.mappings()}


async def list_page(
    connection: AsyncConnection, chosen: InboxFilter, *, after: str | None, limit: int
) -> list[EntrySummary]:
    """Return the newest `limit` matching entries beyond the id `after`."""
    statement = select(*_SUMMARY).where(
        *narrowest_first(_INBOX, chosen, ("source_id", "tenant_id", "status", "event_type")),
        *created_between(_C.id, "inb", chosen.since, chosen.until),
    )
    is_by_status = chosen.source_id is None and chosen.tenant_id is None
    if is_by_status and chosen.status not in (None, "accepted"):
        statement = statement.where(Implied(_C.status != "accepted"))
    page = newest_first(statement, _C.id, after=after, limit=limit)
    return [EntrySummary(**row) for row in (await connection.execute(page)).mappings()]


async def set_result(
    connection: AsyncConnection,
    inbox_id: str,
    *,
    status: InboxStatus,
    event_id: str | None,
    suppressed_by: str | None,
) -> None:
    """Set the result of retrying an entry that had failed."""
    await connection.execute(
        update(_INBOX)
        .where(_C.id == inbox_id)
        .values(
            status=status,
            event_id=event_id,
            suppressed_by=suppressed_by,
            last_error=None,
        )
    )


@dataclass(frozen=True, slots=True)
class RawRequest:
    """A received request, to be forwarded unchanged, of `size` bytes; `body` is None if these are
    many and were not asked for. A damaged one, which has no content here, cannot be forwarded."""

    inbox_id: str
    size: int
    body: bytes | None
    content_type: str
    headers: tuple[tuple[str, str], ...]
    damaged: bool = False


_IS_ONE = _C.id.in_(bindparam("ids", expanding=True))
_WHOLE = select(
    _C.id, func.length(_C.body).label("size"), _C.body, _C.content_type, _C.headers
).where(_IS_ONE)
_HEADS = select(_C.id, *small_body(_C.body), _C.content_type, _C.headers).where(_IS_ONE)


async def raw_requests(
    connection: AsyncConnection, inbox_ids: Iterable[str], *, whole: bool = True
) -> dict[str, RawRequest]:
    """Return the requests of these entries by id, without entries that are no longer kept, and if
    not `whole` without large bodies."""
    ids = sorted(inbox_ids)
    found: dict[str, RawRequest] = {}
    try:
        for row in await connection.execute(_WHOLE if whole else _HEADS, {"ids": ids}):
            try:
                headers = tuple((name, value) for name, value in row.headers)
            except (TypeError, ValueError):
                found[row.id] = RawRequest(row.id, 0, b"", "", (), damaged=True)
            else:
                found[row.id] = RawRequest(row.id, row.size, row.body, row.content_type, headers)
        return found
    except ValueError:  # headers that are not JSON
        if len(ids) == 1:
            return {ids[0]: RawRequest(ids[0], 0, b"", "", (), damaged=True)}
    for one in ids:
        found |= await raw_requests(connection, [one], whole=whole)
    return found


async def sizes(connection: AsyncConnection, inbox_ids: Collection[str]) -> dict[str, int]:
    """Return the length of these entries' bodies, in bytes, by id, without entries that are no
    longer kept."""
    length = func.length(_C.body).label("size")
    rows = await connection.execute(select(_C.id, length).where(_C.id.in_(sorted(inbox_ids))))
    return {row.id: row.size for row in rows}


async def source_ids(connection: AsyncConnection, inbox_ids: Collection[str]) -> dict[str, str]:
    """Return the source ids of these entries by id, without entries that are no longer kept."""
    rows = await connection.execute(select(_C.id, _C.source_id).where(_C.id.in_(sorted(inbox_ids))))
    return {row.id: row.source_id for row in rows}

"""Finds endpoints, tenants, sources, event types and API keys by a part of their names.

No index finds parts of words. So each statement reads at most `SCANNED` rows, the newest, in the
order of an index, and compares their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from sqlalchemy import (
    ColumnElement,
    Label,
    Select,
    Table,
    case,
    func,
    literal_column,
    null,
    or_,
    select,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.events.operational import SYSTEM_TENANT
from hookfast.storage.database.keyset import by_name, newest_first
from hookfast.storage.search.hit import SCANNED, Scope
from hookfast.storage.tables import ApiKey, Endpoint, EventType, Source, Tenant

Named = Literal["endpoint", "tenant", "source", "event_type", "api_key"]
"""The kinds of things that have names."""


@dataclass(frozen=True, slots=True)
class Name:
    """Something with a name, and its other name: an endpoint's URL, a source's provider."""

    id: str
    name: str
    other: str
    tenant_id: str | None

    def is_exactly(self, texts: Iterable[str]) -> bool:
        """Whether its id or one of its names is one of these texts, in upper or lower case. A URL
        is also itself without its scheme."""
        bare = self.other.partition("://")[2].rstrip("/")
        own = {each.casefold() for each in (self.id, self.name, self.other, bare) if each}
        return any(text.casefold() in own for text in texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Columns:
    """Where a kind's names are. `removed` is set when a row is not to be found any more."""

    table: Table
    id: str = "id"
    name: str
    other: str | None = None
    tenant_id: str | None = "tenant_id"
    removed: str | None = "deleted_at"


_KINDS: Final[dict[Named, _Columns]] = {
    "endpoint": _Columns(table=Endpoint.__table__, name="description", other="url"),
    "tenant": _Columns(table=Tenant.__table__, name="name", tenant_id=None),
    "source": _Columns(table=Source.__table__, name="name", other="provider"),
    "event_type": _Columns(
        table=EventType.__table__, id="name", name="name", tenant_id=None, removed=None
    ),
    "api_key": _Columns(table=ApiKey.__table__, name="name", other="hint", removed="revoked_at"),
}


async def find(
    connection: AsyncConnection,
    kind: Named,
    texts: Sequence[str] = (),
    *,
    scope: Scope,
    limit: int,
) -> list[Name]:
    """Return what has one of these texts in a name, the exact matches first; without a text, the
    newest. Upper and lower case are the same. The caller decides who may see tenants and keys."""
    rows = await connection.execute(statement(kind, texts, scope=scope, limit=limit))
    return [Name(row.id, row.name or row.other or row.id, row.other, row.tenant_id) for row in rows]


def statement(kind: Named, texts: Sequence[str], *, scope: Scope, limit: int) -> Select[Any]:
    """Return the statement of `find`."""
    columns = _KINDS[kind]
    c = columns.table.c
    key = c[columns.id]

    def named(column: str | None, label: str) -> Label[Any]:
        return (null() if column is None else c[column]).label(label)

    scanned: Select[Any] = select(
        named(columns.id, "id"),
        named(columns.name, "name"),
        func.coalesce(named(columns.other, "other").element, literal_column("''")).label("other"),
        named(columns.tenant_id, "tenant_id"),
        named(columns.removed, "removed"),
    )
    if kind == "endpoint" and scope.endpoint_id is not None:
        scanned = scanned.where(key == scope.endpoint_id)
    elif kind == "api_key" and scope.tenant_id is None:
        scanned = scanned.where(c.tenant_id.is_(None))
    elif columns.tenant_id is not None and scope.tenant_id is not None:
        scanned = scanned.where(c[columns.tenant_id] == scope.tenant_id)
    # all event types, by name: those that sources registered last would hide all others
    ordered = by_name if kind == "event_type" else newest_first
    rows = ordered(scanned, key, after=None, limit=SCANNED).subquery()
    found: list[ColumnElement[bool]] = [rows.c.removed.is_(None), rows.c.id != SYSTEM_TENANT]
    if not texts:  # in the order of the subquery: to sort it, all of it would be read
        return select(rows).where(*found).limit(limit)
    found.append(or_(*(_contains(rows.c, text) for text in texts)))
    exact = case((or_(*(_equals(rows.c, text) for text in texts)), 0), else_=1)
    order = rows.c.id if kind == "event_type" else rows.c.id.desc()
    return select(rows).where(*found).order_by(exact, order).limit(limit)


def _contains(c: Any, text: str) -> ColumnElement[bool]:
    """Return the condition that a name contains this text, in which `*` stands for anything.
    Databases know the small letters of ASCII at least; beyond it, the text is also found as it was
    typed."""
    names = (c.name, c.other)
    if "*" in text:
        escaped = re.sub(r"([%_/])", r"/\1", text.lower())
        pattern = re.sub(r"\*+", "%", escaped)
        return or_(*(func.lower(column).like(f"%{pattern}%", escape="/") for column in names))
    lower = [func.lower(column).contains(text.lower(), autoescape=True) for column in names]
    typed = [] if text.isascii() else [column.contains(text, autoescape=True) for column in names]
    return or_(*lower, *typed)


def _equals(c: Any, text: str) -> ColumnElement[bool]:
    names = (c.name, c.other)
    return or_(*(func.lower(column) == text.lower() for column in names), c.id == text)

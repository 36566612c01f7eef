"""Statements on `inbox_keys`: which inbox entry was first with a delivery id or a business fact.

A prefix keeps the two kinds of keys apart. A delivery id is claimed together with the hash of the
body, so that the same id with another body is another request. An expired key is taken over by the
statement that claims it, so nothing depends on when expired keys are deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Table, delete, select, tuple_
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.errors import Unavailable
from hookfast.storage.tables import InboxKey

_KEYS: Table = InboxKey.__table__
_C = _KEYS.c
_NAME = _C.source_id, _C.key, _C.payload_sha256

DELIVERY = "d:"
BUSINESS = "b:"
DELIVERY_KEY_LIFE = timedelta(days=30)
"""How long a delivery id is kept: longer than any provider retries (three days), and as long as the
inbox is kept."""

KeyName = tuple[str, str, str]
"""The id of a source, a key, and the hash of the body that it is for (empty: any body)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A key that an inbox entry claims; it gets the key if no other entry has it."""

    source_id: str
    key: str
    payload_sha256: str = ""
    inbox_id: str
    seen_at: datetime
    expires_at: datetime

    @property
    def name(self) -> KeyName:
        """The columns that identify the key."""
        return self.source_id, self.key, self.payload_sha256


def _claim_statement(dialect: Any) -> Any:
    adding = dialect.insert(_KEYS)
    new = adding.excluded
    return adding.on_conflict_do_update(
        index_elements=[column.name for column in _NAME],
        set_={name: new[name] for name in ("inbox_id", "seen_at", "expires_at")},
        where=_C.expires_at <= new.seen_at,
    ).returning(*_NAME)


# Built once: building a statement costs as much as running it.
_CLAIM = {"postgresql": _claim_statement(postgresql), "sqlite": _claim_statement(sqlite)}


async def claim(connection: AsyncConnection, claims: Iterable[Claim]) -> dict[KeyName, str]:
    """Claim these keys, and return the inbox entry that has each. If there are several claims to
    one key, the first counts.

    Raises Unavailable when a key expired and was deleted at the moment of the claim.
    """
    # One claim per key, because a statement cannot change one row twice; in order, so that two
    # transactions that share keys wait for each other in one order.
    first: dict[KeyName, Claim] = {}
    for one in claims:
        first.setdefault(one.name, one)
    if not first:
        return {}
    rows = [
        {
            "source_id": one.source_id,
            "key": one.key,
            "payload_sha256": one.payload_sha256,
            "inbox_id": one.inbox_id,
            "seen_at": one.seen_at,
            "expires_at": one.expires_at,
        }
        for _, one in sorted(first.items())
    ]
    claimed = await connection.execute(_CLAIM[connection.dialect.name], rows)
    new = {tuple(row) for row in claimed}
    holders = {name: one.inbox_id for name, one in first.items() if name in new}
    if others := first.keys() - new:
        rest = select(*_NAME, _C.inbox_id).where(tuple_(*_NAME).in_(sorted(others)))
        for *name, inbox_id in await connection.execute(rest):
            holders[tuple(name)] = inbox_id
    if holders.keys() != first.keys():
        raise Unavailable("A duplicate's key has just expired; send the request again.")
    return holders


async def find_holders(connection: AsyncConnection, *, source_id: str, key: str) -> Sequence[str]:
    """Return the inbox entries that have this key, expired or not: one for each body."""
    rows = await connection.execute(
        select(_C.inbox_id).where(_C.source_id == source_id, _C.key == key)
    )
    return rows.scalars().all()


async def expire(connection: AsyncConnection, *, now: datetime, limit: int) -> int:
    """Delete at most `limit` expired keys, and return how many were deleted."""
    old = select(*_NAME).where(_C.expires_at <= now).limit(limit)
    if connection.dialect.name == "postgresql":
        old = old.with_for_update(skip_locked=True)  # a key that is being taken over is not old
    names = [tuple(row) for row in await connection.execute(old)]
    if not names:
        return 0
    result = await connection.execute(
        delete(_KEYS).where(tuple_(*_NAME).in_(names), _C.expires_at <= now)
    )
    return result.rowcount

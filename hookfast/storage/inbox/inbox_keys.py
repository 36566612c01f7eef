"""Statements on `inbox_keys`: which inbox entry was first with a delivery id or a business fact.

A prefix keeps the two kinds of keys apart. An expired key is taken over by the statement that
claims it, so nothing depends on when expired keys are deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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

DELIVERY = "d:"
BUSINESS = "b:"
DELIVERY_KEY_LIFE = timedelta(days=30)
"""How long a delivery id is kept: longer than any provider retries (three days), and as long as the
inbox is kept."""

KeyName = tuple[str, str]
"""The id of a source, and a key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A key that an inbox entry claims; it gets the key if no other entry has it."""

    source_id: str
    key: str
    inbox_id: str
    payload_sha256: str
    seen_at: datetime
    expires_at: datetime

    @property
    def name(self) -> KeyName:
        """The columns that identify the key."""
        return self.source_id, self.key


@dataclass(frozen=True, slots=True)
class KeyHolder:
    """The inbox entry that has a key, and the hash of its payload."""

    inbox_id: str
    payload_sha256: str


def _claim_statement(dialect: Any) -> Any:
    adding = dialect.insert(_KEYS)
    new = adding.excluded
    return adding.on_conflict_do_update(
        index_elements=["source_id", "key"],
        set_={name: new[name] for name in ("inbox_id", "payload_sha256", "seen_at", "expires_at")},
        where=_C.expires_at <= new.seen_at,
    ).returning(_C.source_id, _C.key)


# Built once: building a statement costs as much as running it.
_CLAIM = {"postgresql": _claim_statement(postgresql), "sqlite": _claim_statement(sqlite)}


async def claim(connection: AsyncConnection, claims: Iterable[Claim]) -> dict[KeyName, KeyHolder]:
    """Claim these keys, and return the holder of each. If there are several claims to one key, the
    first counts.

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
            "inbox_id": one.inbox_id,
            "payload_sha256": one.payload_sha256,
            "seen_at": one.seen_at,
            "expires_at": one.expires_at,
        }
        for _, one in sorted(first.items())
    ]
    claimed = await connection.execute(_CLAIM[connection.dialect.name], rows)
    new = {(row.source_id, row.key) for row in claimed}
    holders = {
        name: KeyHolder(one.inbox_id, one.payload_sha256)
        for name, one in first.items()
        if name in new
    }
    if others := first.keys() - new:
        holders |= await find_holders(connection, sorted(others))
    if holders.keys() != first.keys():
        raise Unavailable("A duplicate's key has just expired; send the request again.")
    return holders


async def find_holders(
    connection: AsyncConnection, names: Sequence[KeyName]
) -> Mapping[KeyName, KeyHolder]:
    """Return the holders of these keys, expired or not, without keys that have no holder."""
    rows = await connection.execute(
        select(_C.source_id, _C.key, _C.inbox_id, _C.payload_sha256).where(
            tuple_(_C.source_id, _C.key).in_(names)
        )
    )
    return {(row.source_id, row.key): KeyHolder(row.inbox_id, row.payload_sha256) for row in rows}


async def expire(connection: AsyncConnection, *, now: datetime, limit: int) -> int:
    """Delete at most `limit` expired keys, and return how many were deleted."""
    old = select(_C.source_id, _C.key).where(_C.expires_at <= now).limit(limit)
    if connection.dialect.name == "postgresql":
        old = old.with_for_update(skip_locked=True)  # a key that is being taken over is not old
    names = [tuple(row) for row in await connection.execute(old)]
    if not names:
        return 0
    result = await connection.execute(
        delete(_KEYS).where(tuple_(_C.source_id, _C.key).in_(names), _C.expires_at <= now)
    )
    return result.rowcount

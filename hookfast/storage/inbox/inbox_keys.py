"""Statements on `inbox_keys`: who came first with a delivery id or a business fact.

The prefix keeps one kind from passing for the other. A key that has run out is taken over in the
statement that claims it, so nothing depends on when old ones are deleted.
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
"""How long a delivery id stays known: longer than any provider sends one again (three days), and
as long as the inbox is kept."""

KeyName = tuple[str, str]
"""A source's id and a key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A key that an entry wants to be the first with."""

    source_id: str
    key: str
    inbox_id: str
    payload_sha256: str
    seen_at: datetime
    expires_at: datetime

    @property
    def name(self) -> KeyName:
        """What is unique."""
        return self.source_id, self.key


@dataclass(frozen=True, slots=True)
class Held:
    """Who has a key."""

    inbox_id: str
    payload_sha256: str


def _taking(dialect: Any) -> Any:
    adding = dialect.insert(_KEYS)
    new = adding.excluded
    return adding.on_conflict_do_update(
        index_elements=["source_id", "key"],
        set_={name: new[name] for name in ("inbox_id", "payload_sha256", "seen_at", "expires_at")},
        where=_C.expires_at <= new.seen_at,
    ).returning(_C.source_id, _C.key)


# Made once: building a statement anew costs as much as running it.
_TAKE = {"postgresql": _taking(postgresql), "sqlite": _taking(sqlite)}


async def claim(connection: AsyncConnection, claims: Iterable[Claim]) -> dict[KeyName, Held]:
    """Take these keys where they are free; gives who has each of them now. Of several claims to one
    key the first counts.

    Raises Unavailable when one ran out and went in the very moment it was asked for.
    """
    # once each, for a statement cannot take one row twice; in order, so that two transactions that
    # share keys wait for each other in one order
    wanted: dict[KeyName, Claim] = {}
    for one in claims:
        wanted.setdefault(one.name, one)
    if not wanted:
        return {}
    taking = _TAKE[connection.dialect.name]
    rows = [
        {
            "source_id": one.source_id,
            "key": one.key,
            "inbox_id": one.inbox_id,
            "payload_sha256": one.payload_sha256,
            "seen_at": one.seen_at,
            "expires_at": one.expires_at,
        }
        for _, one in sorted(wanted.items())
    ]
    taken = {(row.source_id, row.key) for row in await connection.execute(taking, rows)}
    held = {
        name: Held(one.inbox_id, one.payload_sha256)
        for name, one in wanted.items()
        if name in taken
    }
    if others := wanted.keys() - taken:
        held |= await holders(connection, sorted(others))
    if held.keys() != wanted.keys():
        raise Unavailable("A key ran out while it was in use; send the request again.")
    return held


async def holders(connection: AsyncConnection, names: Sequence[KeyName]) -> Mapping[KeyName, Held]:
    """Who has these keys, run out or not; those that nobody has are left out."""
    rows = await connection.execute(
        select(_C.source_id, _C.key, _C.inbox_id, _C.payload_sha256).where(
            tuple_(_C.source_id, _C.key).in_(names)
        )
    )
    return {(row.source_id, row.key): Held(row.inbox_id, row.payload_sha256) for row in rows}


async def expire(connection: AsyncConnection, *, now: datetime, limit: int) -> int:
    """Delete at most `limit` keys that have run out; returns how many."""
    old = select(_C.source_id, _C.key).where(_C.expires_at <= now).limit(limit)
    if connection.dialect.name == "postgresql":
        old = old.with_for_update(skip_locked=True)  # one that is being taken over is not old
    names = [tuple(row) for row in await connection.execute(old)]
    if not names:
        return 0
    result = await connection.execute(
        delete(_KEYS).where(tuple_(_C.source_id, _C.key).in_(names), _C.expires_at <= now)
    )
    return result.rowcount

"""Attempts that come too late to say how their delivery stands.

A worker that Temporal gave up (it did not hear from it) may still be sending when another one makes
the same attempt once more, and may come to its record when the delivery has been cancelled. Both
requests were made, so both are recorded; but only one of them is what the workflow knows of, and
the row has to say the same: a row that waits for a retry while its workflow has ended is taken for
lost, and sent again.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Table, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.delivery import AttemptFacts
from hookfast.outcome import DeliveryStatus, Result
from hookfast.storage import attempts
from hookfast.storage.tables import Attempt, Delivery

_ATTEMPTS: Table = Attempt.__table__
_DELIVERIES: Table = Delivery.__table__


@dataclass(frozen=True, slots=True)
class Sifted:
    """Attempts' ids: those `known`, which are recorded already, and those that come too `late`; and
    the ids of the deliveries that are on hold."""

    known: frozenset[str]
    late: frozenset[str]
    held: frozenset[str]


@dataclass(frozen=True, slots=True, order=True)
class _Try:
    """One of those made of the same attempt, the one that counts being the greatest: what arrived
    has arrived; else Temporal asked for the newer one because it had given up the other."""

    succeeded: bool
    attempt_id: str  # rises with the time the attempt began


@dataclass(frozen=True, slots=True)
class _Standing:
    """How a delivery stands before these attempts are recorded."""

    attempts: int
    held: bool
    cancelled_at: datetime | None


async def sift(connection: AsyncConnection, facts: Collection[AttemptFacts]) -> Sifted:
    """Lock the deliveries of these attempts, and find which of them are recorded and which late."""
    standings = await _lock(connection, {one.delivery_id for one in facts})
    # in a statement of its own: it sees what was committed up to the locks
    tries = await _recorded(connection, facts)
    known = frozenset(made.attempt_id for of_one in tries.values() for made in of_one)
    for one in facts:
        tries.setdefault((one.delivery_id, one.number), set()).add(_try(one))
    late = frozenset(
        one.attempt_id
        for one in facts
        if _try(one) < max(tries[one.delivery_id, one.number])
        or _is_over(standings.get(one.delivery_id), one)
    )
    held = frozenset(delivery_id for delivery_id, one in standings.items() if one.held)
    return Sifted(known, late, held)


def _is_over(standing: _Standing | None, one: AttemptFacts) -> bool:
    """Whether the delivery has gone on, or was cancelled, since this attempt began. (One that is
    sent again after it was cancelled begins afterwards.)"""
    if standing is None:
        return False
    since = standing.cancelled_at
    return standing.attempts > one.number or (since is not None and since > one.started_at)


def _try(one: AttemptFacts) -> _Try:
    return _Try(one.result == Result.SUCCESS, one.attempt_id)


async def _lock(connection: AsyncConnection, delivery_ids: Collection[str]) -> dict[str, _Standing]:
    c = _DELIVERIES.c
    rows = await connection.execute(
        select(c.id, c.attempts, c.status, c.finished_at)
        .where(c.id.in_(sorted(delivery_ids)))
        # Two processes that lock the same rows lock them in one order.
        .order_by(c.id)
        .with_for_update()
    )
    return {
        row.id: _Standing(
            attempts=row.attempts,
            held=row.status == DeliveryStatus.HELD,
            cancelled_at=row.finished_at if row.status == DeliveryStatus.CANCELLED else None,
        )
        for row in rows
    }


async def _recorded(
    connection: AsyncConnection, facts: Collection[AttemptFacts]
) -> dict[tuple[str, int], set[_Try]]:
    """What is recorded of the same attempts, by delivery and number (and of others of theirs: two
    lists are quicker asked for than their pairs)."""
    c = _ATTEMPTS.c
    rows = await connection.execute(
        select(c.id, c.delivery_id, c.number, c.result).where(
            attempts.of(sorted({one.delivery_id for one in facts})),
            c.number.in_(sorted({one.number for one in facts})),
        )
    )
    found: dict[tuple[str, int], set[_Try]] = {}
    for row in rows:
        made = _Try(row.result == Result.SUCCESS, row.id)
        found.setdefault((row.delivery_id, row.number), set()).add(made)
    return found

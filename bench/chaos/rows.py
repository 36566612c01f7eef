"""The rows of the database, during a storm and after it."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from bench.chaos.emitter import DELAYS
from hookfast.storage.database.engine import Database

_LOOK_SECONDS = 1.0
_REST, _LONGEST_REST = 20, 10.0
"""The pause after reading, as a multiple of its duration: reading must not slow the service."""
_ENDED = "status IN ('delivered', 'dead', 'gone', 'cancelled')"
_OF_IT = "FROM attempts WHERE attempts.delivery_id = deliveries.id"
_ILLEGAL: Final = {
    "ended, and something is due": f"{_ENDED} AND (due_at IS NOT NULL OR recheck_at IS NOT NULL "
    "OR next_attempt_at IS NOT NULL OR waiting_since IS NOT NULL OR resend_asked_at IS NOT NULL "
    "OR released)",
    "ended at no time": f"{_ENDED} AND finished_at IS NULL",
    "open, and finished": f"NOT {_ENDED} AND finished_at IS NOT NULL",
    "open, and nothing is due": "status IN ('pending', 'retrying', 'held') "
    "AND next_attempt_at IS NULL AND (place IS NULL OR place <> 'queued')",
    "queued, and something is due": "place = 'queued' AND next_attempt_at IS NOT NULL",
    "ended, and not left its lane": f"{_ENDED} AND place IN ('queued', 'head')",
    "at the head of a lane that has another": "place = 'head' AND NOT EXISTS "
    "(SELECT 1 FROM lanes WHERE lanes.id = deliveries.lane AND head = deliveries.id)",
    "queued in an idle lane": "place = 'queued' AND NOT EXISTS "
    "(SELECT 1 FROM lanes WHERE lanes.id = deliveries.lane AND (head IS NOT NULL OR needs_head))",
    "more retries than its plan has": f"retries > {len(DELAYS)}",
    "delivered without a successful attempt": "status = 'delivered' AND NOT EXISTS "
    f"(SELECT 1 {_OF_IT} AND result = 'success')",
    "another number of attempts than is recorded": "attempts <> "
    f"(SELECT coalesce(max(number), 0) {_OF_IT}) "
    f"OR attempts < (SELECT count(DISTINCT number) {_OF_IT})",
}
"""SQL conditions of rows that the state machine can never write, by what is wrong with them."""


@dataclass(slots=True)
class Watch:
    """Reads the rows about every second while it runs."""

    database: Database
    counts: Counter[str] = field(default_factory=Counter)
    """Deliveries by status, at the last reading."""
    in_outbox: int = 0
    """Deliveries whose workflow was to be started or woken then."""
    illegal: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    """Illegal rows at any reading, by delivery and what was wrong."""

    @property
    def open(self) -> int:
        """Number of deliveries that have not ended."""
        return sum(self.counts[status] for status in ("pending", "retrying", "held", "paused"))

    async def run(self) -> None:
        """Read until cancelled, and wait while the database is away."""
        while True:
            begun = asyncio.get_running_loop().time()
            with contextlib.suppress(SQLAlchemyError):
                await self.look()
            took = asyncio.get_running_loop().time() - begun
            await asyncio.sleep(min(max(_LOOK_SECONDS, took * _REST), _LONGEST_REST))

    async def look(self) -> None:
        """Read once. Raises the database's errors."""
        async with self.database.read() as connection:
            rows = await connection.execute(
                text("SELECT status, count(*) FROM deliveries GROUP BY status")
            )
            self.counts = Counter({status: number for status, number in rows})
            waiting = text("SELECT count(*) FROM deliveries WHERE started_at IS NULL")
            self.in_outbox = (await connection.execute(waiting)).scalar_one()
            for what, condition in _ILLEGAL.items():
                found = await connection.execute(
                    text(f"SELECT * FROM deliveries WHERE {condition} LIMIT 20")  # noqa: S608
                )
                for row in found.mappings():
                    self.illegal.setdefault((row["id"], what), dict(row))


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows at the end: `deliveries` by id; `made` is the number of each event's deliveries."""

    deliveries: dict[str, dict[str, Any]]
    attempts: dict[str, list[dict[str, Any]]]
    made: Counter[str]

    @property
    def statuses(self) -> dict[str, str]:
        """The status of every delivery, by id."""
        return {key: row["status"] for key, row in self.deliveries.items()}

    @property
    def open(self) -> list[str]:
        """Deliveries that have not ended."""
        return [key for key, row in self.deliveries.items() if row["finished_at"] is None]

    @property
    def in_outbox(self) -> list[str]:
        """Deliveries whose workflow still has to be started or woken."""
        return [key for key, row in self.deliveries.items() if row["started_at"] is None]

    @property
    def dead_by_reason(self) -> Counter[str]:
        """Dead letters."""
        dead = [row for row in self.deliveries.values() if row["status"] in ("dead", "gone")]
        return Counter(str(row["reason"]) for row in dead)


async def read_rows(database: Database) -> Rows:
    """Read every delivery and every attempt."""
    async with database.read() as connection:
        deliveries = await _all(connection, "SELECT * FROM deliveries ORDER BY id")
        attempts = await _all(connection, "SELECT * FROM attempts ORDER BY delivery_id, started_at")
    by_delivery: dict[str, list[dict[str, Any]]] = {}
    for attempt in attempts:
        by_delivery.setdefault(attempt["delivery_id"], []).append(attempt)
    return Rows(
        deliveries={row["id"]: row for row in deliveries},
        attempts=by_delivery,
        made=Counter(row["event_id"] for row in deliveries),
    )


async def _all(connection: AsyncConnection, statement: str) -> list[dict[str, Any]]:
    return [dict(row) for row in (await connection.execute(text(statement))).mappings()]

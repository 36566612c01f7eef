"""What figures must say: what the rows say, and what figures keep that rows do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import select

from bench import recount
from hookfast.deliveries.figures import Key, Tally
from hookfast.storage.database.engine import Database
from hookfast.storage.tables import Delivery

_ENDED = "ended:"


class Expected:
    """Compares figures with the rows after each step. `rows` are those of the last comparison, by
    id; `statuses` are all statuses that deliveries had."""

    def __init__(self, database: Database) -> None:
        self.rows: dict[str, Any] = {}
        self.statuses: set[str] = set()
        self._database = database
        self._deleted: Counter[Key] = Counter()
        """Figures of rows that retention has deleted, without ends."""
        self._ended: Counter[Key] = Counter()
        """All ends so far."""

    async def compare(self) -> bool:
        """Compare figures and rows. Return whether a row has changed since the last time."""
        async with self._database.read() as connection:
            found = await connection.execute(select(Delivery.__table__))
            before, self.rows = self.rows, {row.id: row for row in found}
        self.statuses |= {row.status for row in self.rows.values()}
        beyond = Counter(self._deleted)
        for id_, row in self.rows.items():
            ends = _ends(row)
            if id_ not in before or before[id_].finished_at != row.finished_at:
                self._ended.update(ends)
            beyond.subtract(ends)
        beyond.update(self._ended)
        expected: Counter[Key] = Counter()
        for key, number in beyond.items():
            for one in recount.rows_of(key):
                expected[one] += number
        differences = await recount.differences(self._database, ends=True)
        assert differences == {key: number for key, number in expected.items() if number}
        return before != self.rows

    @asynccontextmanager
    async def deleting(self) -> AsyncIterator[None]:
        """Note the figures of the rows that are deleted in this block: they stay, while gauges do
        not."""
        before = await self._counted()
        yield
        before.subtract(await self._counted())
        self._deleted.update({key: number for key, number in before.items() if number})

    async def _counted(self) -> Counter[Key]:
        tally = Tally()
        async with self._database.read() as connection:
            await recount.count_rows(connection, tally)
        return Counter(
            {
                key: number
                for key, number in tally.numbers()
                if not key.gauge and not key.kind.startswith(_ENDED)
            }
        )


def _ends(row: Any) -> dict[Key, int]:
    """Count the end of a delivery, if it has ended."""
    tally = Tally()
    recount.count_delivery(tally, row)
    return {key: number for key, number in tally.numbers() if key.kind.startswith(_ENDED)}

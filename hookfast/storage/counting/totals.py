"""Compares the totals of gauges with the sums of the gauges, and corrects them.

Adding entries up changes both by the same numbers. So they differ only if one of them was changed
in another way, and a difference stays the same until it is corrected.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import BigInteger, Select, Table, cast, func, select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.storage.counting import folding
from hookfast.storage.database.engine import Database
from hookfast.storage.database.upsert import insert_into
from hookfast.storage.tables import Gauge, GaugeTotal

_G = Gauge.__table__.c
_TOTALS: Table = GaugeTotal.__table__
_T = _TOTALS.c


def _differences() -> Select[Any]:
    sums = (
        select(scope.label("scope"), kind.label("kind"), func.sum(_G.number).label("number"))
        .where(*conditions)
        .group_by(scope, kind)
        for scope, kind, conditions in folding.totals_of(_G)
    )
    rows = union_all(*sums, select(_T.scope, _T.kind, -_T.number)).subquery().c
    number = func.sum(rows.number)
    return (
        select(rows.scope, rows.kind, cast(number, BigInteger).label("number"))
        .group_by(rows.scope, rows.kind)
        .having(number != 0)
    )


DIFFERENCES: Final = _differences()
"""Selects what is missing in the totals, by scope and kind."""


async def differences(connection: AsyncConnection) -> list[dict[str, Any]]:
    """Return what is missing in the totals, as rows to add to them. Reads all gauges."""
    return [dict(row) for row in (await connection.execute(DIFFERENCES)).mappings()]


async def correct(database: Database) -> int:
    """Add what is missing to the totals, and return how many were wrong."""
    async with database.read() as connection:
        if not await differences(connection):
            return 0
    async with database.write() as connection:
        await folding.lock(connection, wait=True)
        # another process may have corrected them meanwhile
        if missing := await differences(connection):
            adding = insert_into(connection, _TOTALS)
            adding = adding.on_conflict_do_update(
                index_elements=list(_TOTALS.primary_key.columns),
                set_={"number": _T.number + adding.excluded.number},
            )
            await connection.execute(adding, missing)
    return len(missing)

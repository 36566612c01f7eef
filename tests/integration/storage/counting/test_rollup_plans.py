"""The daily run reads ranges of the primary keys of figures and gauges, however many there are.
PostgreSQL counts the rows of a bitmap scan twice."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.storage.counting import rollup
from hookfast.storage.counting.rollup import Ages
from hookfast.storage.database.engine import Database
from hookfast.storage.figures import reconciliation
from tests.support.query_plan import check
from tests.support.undoing import undoing

pytestmark = pytest.mark.anyio

DAYS, SCOPES = 50, 200
NOW = 29_000_160  # minutes from 1970, at midnight
HOURS = NOW - 2 * 1440
_FIGURES = """
INSERT INTO figures (scope, at, event_type, kind, bucket, number)
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 29999)
SELECT 'ep_' || (1000 + i % 200), 29000160 - (i / 200) * 480, '', 'delivery:delivered', -1, i % 5
FROM n
"""  # of each scope: 150 rows, three a day
_COPY = """
INSERT INTO figures SELECT CAST(:scope AS text), at, event_type, kind, bucket, number
FROM figures WHERE scope = 'ep_1003'
"""
_GAUGES = """
INSERT INTO gauges (endpoint_id, kind, event_type, at, tenant_id, number)
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 29999)
SELECT 'ep_' || (1000 + i % 2000), 'dead:', 'a.b', i / 2000, 'tnt_1', i % 5 FROM n
"""


@pytest.fixture
async def connection(database: Database) -> AsyncIterator[AsyncConnection]:
    """A transaction on 30,000 figures and gauges, with the statistics of autovacuum."""
    async with undoing(database) as connection:
        for statement in (_FIGURES, _GAUGES):
            await connection.execute(text(statement))
        if database.kind == "postgresql":
            await connection.execute(text("ANALYZE"))
        yield connection


def piece(*scopes: str, since: int = HOURS - 1440) -> Mapping[str, Any]:
    ages = {"hours": HOURS, "days": NOW - 40 * 1440, "kept": 0}
    return ages | {"scopes": scopes, "since": since, "before": HOURS}


async def test_scopes_are_found_by_one_look_up_each(connection: AsyncConnection) -> None:
    await check(
        connection,
        connection.execute(rollup.NEXT_SCOPES, {"after": "ep_1003"}),
        index="PRIMARY",
        most=3 * rollup._SCOPES_AT_ONCE,
    )


async def test_a_piece_reads_a_range_of_each_scope(connection: AsyncConnection) -> None:
    few = piece("ep_1003", "ep_1004", "ep_1199")
    for statement, values, most in (
        (rollup.OLD_ROWS, piece("ep_1003", "ep_1004", since=0), 600),
        (rollup.LAST_OF_PIECE, {**piece("ep_1003"), "offset": 100}, 20),
        (rollup.DELETE_PAST_AGE, few, 40),
        (rollup.DELETE_MOVED, few, 40),
        (rollup.DELETE_EMPTY, few, 40),
        (rollup.ADD[connection.dialect.name], few, 40),
    ):
        # the sums of a piece are sorted by their keys
        query = connection.execute(statement, values)
        await check(connection, query, index="PRIMARY", may_sort=True, most=most)


async def test_hours_that_are_not_moved_yet_are_not_read(connection: AsyncConnection) -> None:
    """Of each scope there are 50 days: ten are older than 40 days, and one is two days old."""
    scopes = ["hours/ep_1003", "ep_1003/types"]
    for scope in scopes:
        await connection.execute(text(_COPY), {"scope": scope})
    if connection.dialect.name == "postgresql":
        await connection.execute(text("ANALYZE figures"))
    ages = Ages(hours=HOURS, days=NOW - 40 * 1440, kept=0)
    ranges = list(rollup._ranges(ages, scopes))
    assert len(ranges) == 2
    for range_, days in zip(ranges, (10, 1), strict=True):
        query = connection.execute(rollup.OLD_ROWS, ages._asdict() | range_._asdict())
        most = 2 * 2 * (days + 1) * 3  # a bitmap scan counts twice
        await check(connection, query, index="PRIMARY", may_sort=True, most=most)


async def test_gauges_are_read_in_the_order_of_the_primary_key(connection: AsyncConnection) -> None:
    following = connection.execute(rollup.NEXT_GAUGES, {"after": "ep_1900"})
    await check(connection, following, index="PRIMARY", most=500 * 15 + 100)
    few = {"first": "ep_1003", "last": "ep_1012"}
    for statement in (rollup.EMPTY_GAUGES, rollup.DELETE_EMPTY_GAUGES):
        await check(connection, connection.execute(statement, few), index="PRIMARY", most=300)
    ids = {"ids": ["ep_1003", "ep_1004"]}
    await check(
        connection, connection.execute(reconciliation.COUNTED, ids), index="PRIMARY", most=60
    )

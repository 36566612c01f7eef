"""JSON columns: numbers as they were written, and floats where settings are calculated with."""

from __future__ import annotations

from decimal import Decimal

import pytest
from sqlalchemy import Text, cast, select, update

from hookfast.storage.database.engine import Database
from hookfast.storage.endpoints import endpoints
from hookfast.storage.tables import Endpoint
from hookfast.strict_json.text import from_text, to_text

pytestmark = pytest.mark.anyio

_ENDPOINTS = Endpoint.__table__


async def test_numbers_are_kept_with_their_digits(database: Database, endpoint: str) -> None:
    document = '{"n":[1.10,1e5,-0,0.10000000000000000001,12345678901234567890],"t":"é\\u0001"}'
    async with database.write() as connection:
        await connection.execute(update(_ENDPOINTS).values(meta=from_text(document)))
    async with database.read() as connection:
        columns = select(_ENDPOINTS.c.meta, cast(_ENDPOINTS.c.meta, Text).label("text"))
        row = (await connection.execute(columns)).one()
    assert (to_text(row.meta), row.text) == (document, document)


async def test_settings_that_are_calculated_with_are_floats(
    database: Database, endpoint: str
) -> None:
    """They go to Temporal, whose JSON has no decimals."""
    plan = {"delays_seconds": [Decimal("0.5"), 10], "jitter": Decimal("1e-1")}
    async with database.write() as connection:
        await connection.execute(
            update(_ENDPOINTS).values(retry_plan=plan, circuit={"min_span_seconds": Decimal("1.5")})
        )
    async with database.read() as connection:
        plans = await endpoints.retry_plans(connection, [endpoint])
        stored = await endpoints.get(connection, endpoint)
    assert repr(plans[endpoint]) == "{'delays_seconds': [0.5, 10], 'jitter': 0.1}"
    assert stored is not None
    assert repr(stored.circuit) == "{'min_span_seconds': 1.5}"

"""Creating sources, and reading their counts and stored rows."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import httpx2
from sqlalchemy import func, select, update

from api.context.context import Context
from hookfast.clock import utc_now
from hookfast.storage.tables import InboxKey
from tests.integration.api.inbound import SECRET
from tests.support.api_client import Json


async def make_source(client: httpx2.AsyncClient, tenant: str, **members: Any) -> Json:
    form = {"tenant_id": tenant, "name": "x", "provider": "github", "secrets": [SECRET]}
    answer = await client.post("/sources", json=form | members)
    assert answer.status_code == 201, answer.text
    document: Json = answer.json()
    return document


async def stats(client: httpx2.AsyncClient, context: Context, source: str) -> Json:
    await context.rejections.write()
    document: Json = (await client.get(f"/sources/{source}/stats")).json()
    return document


async def count(context: Context, table: Any, **where: Any) -> int:
    async with context.database.read() as connection:
        statement = select(func.count()).select_from(table.__table__)
        for name, value in where.items():
            statement = statement.where(table.__table__.c[name] == value)
        return await connection.scalar(statement) or 0


async def expire(context: Context, source: str) -> None:
    """Make every key of a source expire a moment ago."""
    table = InboxKey.__table__
    past = utc_now() - timedelta(seconds=1)
    async with context.database.write() as connection:
        changing = update(table).where(table.c.source_id == source).values(expires_at=past)
        await connection.execute(changing)

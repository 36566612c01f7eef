"""Events are refused while more deliveries wait for a worker than may."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest
from sqlalchemy import text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from api.backlog import Backlog
from api.context import Context
from hookfast.errors import Unavailable
from hookfast.storage import backlog
from hookfast.storage.engine import Database
from hookfast.storage.tables import Delivery
from tests.api_client import Make, MakeEventType
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.anyio

EVENT = {"type": "order.invoice.paid", "data": {}}


async def _looked(waiting: Backlog) -> bool:
    """Whether it lets a request through, once it has looked anew."""
    waiting._look_at = 0.0
    try:
        waiting.check()
    except Unavailable:
        pass
    if waiting._looking is not None:
        await waiting._looking
    try:
        waiting.check()
    except Unavailable:
        return False
    return True


@pytest.mark.parametrize("path", ["/events", "/events/batch"])
async def test_past_the_limit_events_are_refused_until_workers_have_caught_up(
    context: Context,
    client: httpx2.AsyncClient,
    make_endpoint: Make,
    make_event_type: MakeEventType,
    path: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await make_event_type("order.invoice.paid")
    await make_endpoint(events=["order.**"])
    monkeypatch.setattr(context.backlog, "_limit", 3)
    form: dict[str, Any] = EVENT if path == "/events" else {"events": [EVENT]}
    for _ in range(3):
        assert (await client.post(path, json=form)).status_code == 202
    assert not await _looked(context.backlog)

    refused = await client.post(path, json=form)

    assert refused.status_code == 503
    assert refused.json()["code"] == "overloaded"
    assert int(refused.headers["Retry-After"]) > 0
    assert len((await client.get("/events")).json()["data"]) == 3

    async with context.database.write() as connection:
        await connection.execute(update(Delivery).values(started_at=datetime.now(UTC)))
    assert await _looked(context.backlog)
    assert (await client.post(path, json=form)).status_code == 202

"""Events are rejected while too many deliveries wait for a worker."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest
from sqlalchemy import update

from api.context.context import Context
from api.limits.backlog import Backlog
from hookfast.errors import Unavailable
from hookfast.storage.database.availability import connection_lost
from hookfast.storage.tables import Delivery
from tests.support.api_client import Make, MakeEventType

pytestmark = pytest.mark.anyio

EVENT = {"type": "order.invoice.paid", "data": {}}


async def _counted(waiting: Backlog) -> bool:
    """Count again, and return whether a request is allowed then."""
    waiting._count_at = 0.0
    with suppress(Unavailable):
        waiting.check()
    if waiting._counting is not None:
        await waiting._counting
    try:
        waiting.check()
    except Unavailable:
        return False
    return True


@pytest.mark.parametrize("path", ["/events", "/events/batch"])
async def test_events_over_the_backlog_limit_are_rejected_until_workers_catch_up(
    context: Context,
    client: httpx2.AsyncClient,
    make_tenant: Make,
    make_endpoint: Make,
    make_event_type: MakeEventType,
    path: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await make_event_type("order.invoice.paid")
    tenant = await make_tenant()
    await make_endpoint(tenant_id=tenant["id"], events=["order.**"])
    monkeypatch.setattr(context.backlog, "_limit", 3)
    form: dict[str, Any] = EVENT if path == "/events" else {"events": [EVENT]}
    for _ in range(3):
        assert (await client.post(path, json=form)).status_code == 202
    assert not await _counted(context.backlog)

    refused = await client.post(path, json=form)

    assert refused.status_code == 503
    assert refused.json()["code"] == "overloaded"
    assert int(refused.headers["Retry-After"]) > 0
    assert len((await client.get("/events")).json()["data"]) == 3

    async with context.database.write() as connection:
        await connection.execute(update(Delivery).values(started_at=datetime.now(UTC)))
    assert await _counted(context.backlog)
    assert (await client.post(path, json=form)).status_code == 202


async def test_requests_never_wait_for_a_count_and_limit_0_counts_nothing(context: Context) -> None:
    waiting = Backlog(context.database, limit=1)
    async with waiting.counting():
        waiting.check()
        counting = waiting._counting
        assert counting is not None
        waiting.check()
        assert waiting._counting is counting, "one count serves every request"
        await counting
        waiting.check()
        assert waiting._counting is None, "it was counted just now"
    unlimited = Backlog(context.database, limit=0)
    unlimited.check()
    assert unlimited._counting is None


async def test_last_count_applies_while_the_database_is_away(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = Backlog(context.database, limit=1)
    monkeypatch.setattr(waiting, "_full", True)

    def away() -> None:
        raise connection_lost(OSError())

    monkeypatch.setattr(context.database, "read", away)
    assert not await _counted(waiting)

"""An API is killed between any two steps of receiving a request. The provider sends unanswered
requests again, and each becomes one event."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import httpx2
import pytest
from sqlalchemy import Table, insert, select

from api.app import create_app
from hookfast.settings.settings import Settings
from hookfast.storage.database.engine import Database
from hookfast.storage.tables import (
    Delivery,
    Event,
    InboxEntry,
    InboxKey,
    Subscription,
    SubscriptionPattern,
)
from tests.e2e.dying_inbox import STEPS
from tests.e2e.processes import environment, running
from tests.integration.api.inbound import signed
from tests.support.seed import seed_endpoint
from tests.support.seed_inbox import seed_source

pytestmark = pytest.mark.anyio

COMMITTED = {"committed"}


async def subscribed_source(database: Database) -> str:
    """Store a source whose events have a subscriber, and return the source's id."""
    endpoint = await seed_endpoint(database, "http://127.0.0.1:4/")
    table = Subscription.__table__
    async with database.write() as connection:
        found = await connection.execute(select(table).where(table.c.endpoint_id == endpoint))
        row = found.one()
        await connection.execute(
            insert(SubscriptionPattern.__table__),
            {"pattern": "**", "tenant_id": row.tenant_id, "subscription_id": row.id},
        )
    return await seed_source(database, row.tenant_id)


async def stored(database: Database, table: Table, *columns: str) -> list[tuple[str, ...]]:
    async with database.read() as connection:
        rows = await connection.execute(select(*(table.c[name] for name in columns)))
        return sorted(tuple(row) for row in rows)


async def test_an_api_killed_between_two_steps_loses_nothing_and_repeats_nothing(
    database: Database, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = environment(tmp_path, database_url, "127.0.0.1:9")
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    source = await subscribed_source(database)
    log = tmp_path / "inbox.log"
    command = (sys.executable, "-m", "tests.e2e.dying_inbox", source)
    async with running(*command, env=env, log=log) as dying:
        assert await dying.wait() == 0, log.read_text()
    died = [line for line in log.read_text().splitlines() if line.split(" ")[0] in STEPS]
    assert died == [f"{step} {signal.SIGKILL.value}" for step in STEPS]

    # each request is stored completely or not at all
    entries = await stored(database, InboxEntry.__table__, "key", "event_id")
    assert [key for key, _ in entries] == [f"id:{step}" for step in sorted(COMMITTED)]
    keys = await stored(database, InboxKey.__table__, "key")
    assert keys == [(f"d:id:{step}",) for step in sorted(COMMITTED)]
    events = await stored(database, Event.__table__, "id")
    assert events == [(event_id,) for _, event_id in entries]
    assert await stored(database, Delivery.__table__, "event_id") == events

    # no request was answered, so each is sent again, all at once
    app = create_app(Settings())
    transport = httpx2.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://hookfast.test") as client,
    ):

        async def send_again(step: str) -> int:
            headers, body = signed({"step": step}, delivery=step)
            answer = await client.post(f"/in/{source}", headers=headers, content=body)
            return answer.status_code

        answers = await asyncio.gather(*(send_again(step) for step in STEPS))
    assert answers == [200 if step in COMMITTED else 202 for step in STEPS]
    events = await stored(database, Event.__table__, "id")
    assert len(events) == len(STEPS)
    assert await stored(database, Delivery.__table__, "event_id") == events

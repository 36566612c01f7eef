"""PostgreSQL's primary is killed under traffic and its synchronous standby takes over; or somebody
takes all connections. Callers are told to come again, and nothing that was accepted is lost."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import func, select

from bench.chaos.database import END_SESSIONS, PostgresqlPair
from hookfast.storage.database.engine import Database
from hookfast.storage.tables import Delivery, Event
from tests.e2e.processes import environment, running, worker
from tests.e2e.traffic import Traffic, lines_of, traffic, until_answers

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(3000)]

_TAKEN_SECONDS = 30.0
_MOST_LINES = 40
"""Warnings and errors of one process in some minutes with faults. One a second would be more."""


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[PostgresqlPair]:
    """A primary with a synchronous standby."""
    # not under tmp_path: a UNIX socket's path may have at most 107 characters
    folder = Path(tempfile.mkdtemp(prefix="hookfast-pair-"))
    pair = PostgresqlPair(folder, tmp_path / "postgresql.log", clocks=False)
    try:
        await pair.start()
        yield pair
    finally:
        await pair.kill()
        shutil.rmtree(folder, ignore_errors=True)


async def until_ready(flowing: Traffic, status: int = 200) -> None:
    await until_answers(flowing.client, "/readyz", status)


async def assert_nothing_lost(url: str, flowing: Traffic) -> None:
    """Check that each accepted event is stored once and delivered, and nothing else is stored."""
    async with Database(url) as database, database.read() as connection:
        events = set((await connection.execute(select(Event.__table__.c.id))).scalars())
        c = Delivery.__table__.c
        rows = await connection.execute(select(c.status, func.count()).group_by(c.status))
        statuses = {status: count for status, count in rows}
    assert events == set(flowing.accepted.values())
    assert len(events) == len(flowing.accepted)
    assert statuses == {"delivered": len(events)}


async def test_failover_to_the_standby_loses_nothing_and_asks_callers_to_come_again(
    pair: PostgresqlPair, temporal_address: str, tmp_path: Path
) -> None:
    env = environment(tmp_path, pair.url, temporal_address, HOOKFAST_LOG_FORMAT="json")
    log = tmp_path / "worker.log"
    async with traffic(env, tmp_path) as flowing, worker(env, log):
        await until_ready(flowing)

        async def refused() -> None:
            assert not await flowing.emit("while-no-server-takes-writes")
            await until_ready(flowing, 503)

        for _ in range(2):  # to the second server, and back to the first
            await flowing.until_accepted(10)
            await pair.fail_over(refused)
            await flowing.until_accepted(10)
            await until_ready(flowing)

        # What the standby does not have is not acknowledged: its machine is gone, not its server.
        pair.standby.part.freeze()
        emits = asyncio.create_task(flowing.emit("unreplicated"))
        done, _ = await asyncio.wait({emits}, timeout=5)
        assert not done
        pair.standby.part.thaw()
        assert await emits
        await flowing.until_accepted(10)
        flowing.stop()
        await flowing.until_delivered()

        doctor = (sys.executable, "-m", "hookfast.cli", "doctor")
        async with running(*doctor, env=env, log=tmp_path / "doctor.log") as process:
            await process.wait()
    assert flowing.faults == []
    assert flowing.refused > 0
    await assert_nothing_lost(pair.url, flowing)
    for name in ("api.log", "worker.log"):
        said = lines_of(tmp_path / name)
        print(name, dict(said))
        assert [line for line in said if line.startswith("The database is away")]
        assert said.total() <= _MOST_LINES, said
    assert "PostgreSQL 18" in (tmp_path / "doctor.log").read_text()


async def test_full_server_and_ended_sessions_lose_nothing_and_are_named_in_few_lines(
    pair: PostgresqlPair, temporal_address: str, tmp_path: Path
) -> None:
    await pair.primary.run("ALTER SYSTEM SET max_connections = 25")
    await pair.restart()
    env = environment(tmp_path, pair.url, temporal_address, HOOKFAST_LOG_FORMAT="json")
    # Four processes, each of which would open up to 22 connections, start together. They leave no
    # connection to somebody who comes later.
    first = psycopg.AsyncConnection.connect(pair.primary.socket_url, autocommit=True)
    async with (
        await first as operator,
        worker(env, tmp_path / "worker.log"),
        worker(env, tmp_path / "worker-2.log"),
        worker(env, tmp_path / "worker-3.log"),
        traffic(env, tmp_path) as flowing,
    ):
        await until_ready(flowing)
        await asyncio.gather(*(flowing.emit(f"burst-{number}") for number in range(200)))
        for _ in range(5):
            await operator.execute(END_SESSIONS)
            await flowing.until_accepted(2)
        await operator.close()
        async with pair.primary.taken():
            await until_ready(flowing, 503)
            before = flowing.refused
            await asyncio.sleep(_TAKEN_SECONDS)
            assert flowing.refused > before
        await flowing.until_accepted(20)
        await until_ready(flowing)
        for number in range(200):
            if f"burst-{number}" not in flowing.accepted:
                await flowing.emit(f"burst-{number}")
        flowing.stop()
        await flowing.until_delivered()
    assert flowing.faults == []
    await assert_nothing_lost(pair.url, flowing)
    for name in ("api.log", "worker.log", "worker-2.log", "worker-3.log"):
        said = lines_of(tmp_path / name)
        print(name, dict(said))
        assert "no connection left; raise max_connections" in (tmp_path / name).read_text()
        assert said.total() <= _MOST_LINES, said

"""The clocks of an API and a worker jump by an hour and a minute while they run: times of rows stay
right, and everything is delivered once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import select

from bench.chaos.clock import INSTALL, FakeClock, libfaketime
from hookfast.storage.database.engine import Database
from hookfast.storage.tables import Attempt, Delivery, WorkerHeartbeat
from tests.e2e.processes import api, environment, worker
from tests.e2e.service_process import free_ports
from tests.e2e.test_temporal_away import count, emit, register, until_healthy
from tests.support.receiver import Receiver
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.heavy,
    pytest.mark.slow,
    pytest.mark.skipif(libfaketime() is None, reason=f"no libfaketime: {INSTALL}"),
]

_JUMPS = (3600, -3600, 60, -60)
_EACH = 15


async def test_jumping_clocks_of_an_api_and_a_worker_disturb_nothing(
    postgresql_url: str, temporal_address: str, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    env = environment(tmp_path, postgresql_url, temporal_address, HOOKFAST_PORT=str(port))
    clocks = [FakeClock(tmp_path / name) for name in ("api.clock", "worker.clock")]
    api_env, worker_env = (env | clock.environment for clock in clocks)
    total = _EACH * len(_JUMPS)

    async def all_delivered() -> bool:
        return await count(client, "delivered") == total

    async with (
        Receiver() as receiver,
        Database(postgresql_url) as database,
        worker(worker_env, tmp_path / "jumping.log"),
        worker(env, tmp_path / "steady.log"),
        api(api_env, tmp_path / "api.log") as client,
    ):
        await until_healthy(client)
        await register(client, receiver.url("/ok"))
        for ahead in _JUMPS:
            for clock in clocks:
                clock.set(ahead)
            await emit(client, _EACH, pause=0.1)
        await eventually(all_delivered)
        now = datetime.now(UTC)
        async with database.read() as connection:
            columns = (Delivery.created_at, Delivery.finished_at)
            times = [one for row in await connection.execute(select(*columns)) for one in row]
            times += (await connection.execute(select(Attempt.started_at))).scalars()
            seen = (await connection.execute(select(WorkerHeartbeat.seen_at))).scalars().all()
    assert len(seen) == 2
    assert all(abs(now - one) < timedelta(seconds=50) for one in (*times, *seen))
    assert len(receiver.requests) == len({one.message_id for one in receiver.requests}) == total
    signed = [int(one.headers["webhook-timestamp"]) for one in receiver.requests]
    assert all(abs(now.timestamp() - one) < 50 for one in signed)
    assert "Overdue" not in (tmp_path / "jumping.log").read_text()

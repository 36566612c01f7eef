from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI
from sqlalchemy import text

from api.context.context import Context
from api.routes import health
from hookfast.settings.settings import Settings
from hookfast.storage.figures import workers
from hookfast.storage.figures.write_check import WriteCheck
from tests.support.api_client import borrowed_app
from tests.support.database_proxy import DatabaseProxy
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio


async def _get(app: FastAPI, path: str, *, method: str = "GET") -> httpx2.Response:
    transport = httpx2.ASGITransport(app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://hookfast.test") as client:
        return await client.request(method, path)


async def test_healthz_answers_without_a_key(app: FastAPI) -> None:
    answer = await _get(app, "/healthz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


async def test_readyz_names_what_is_missing(app: FastAPI, context: Context) -> None:
    answer = await _get(app, "/readyz")
    assert answer.status_code == 503
    assert answer.json() == {"status": "not_ready", "missing": ["worker", "temporal"]}
    async with context.database.write() as connection:
        await workers.record_heartbeat(connection, "w1", version="1", now=context.clock())
    assert (await _get(app, "/readyz")).json()["missing"] == ["temporal"]


async def test_head_requests_get_the_same_status(app: FastAPI) -> None:
    assert (await _get(app, "/healthz", method="HEAD")).status_code == 200
    assert (await _get(app, "/readyz", method="HEAD")).status_code == 503


async def test_a_worker_not_seen_for_fifteen_seconds_does_not_count(
    app: FastAPI, context: Context
) -> None:
    long_ago = context.clock() - timedelta(seconds=16)
    async with context.database.write() as connection:
        await workers.record_heartbeat(connection, "w1", version="1", now=long_ago)
    assert "worker" in (await _get(app, "/readyz")).json()["missing"]


async def test_an_old_schema_is_not_ready(app: FastAPI, context: Context) -> None:
    async with context.database.write() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = '0000'"))
    assert "migrations" in (await _get(app, "/readyz")).json()["missing"]


async def test_a_database_that_is_away_is_not_ready(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, database_url="postgresql://127.0.0.1:1/hookfast")
    with borrowed_app(settings) as app:
        async with app.router.lifespan_context(app):
            answer = await _get(app, "/readyz")
    assert answer.status_code == 503
    assert answer.json()["missing"] == ["database", "temporal"]


@pytest.mark.parametrize(
    ("result", "missing"), [("refused", ["writes"]), ("no_space", ["disk_space"])]
)
async def test_database_that_accepts_no_writes_is_not_ready(
    app: FastAPI, context: Context, monkeypatch: pytest.MonkeyPatch, result: str, missing: list[str]
) -> None:
    async def found(*_: object, within: float) -> str:
        return result

    async with context.database.write() as connection:
        await workers.record_heartbeat(connection, "w1", version="1", now=context.clock())
    monkeypatch.setattr(WriteCheck, "result", found)
    answer = await _get(app, "/readyz")
    assert answer.status_code == 503
    assert answer.json() == {"status": "not_ready", "missing": [*missing, "temporal"]}


async def test_silent_database_is_reported_within_the_time_limit(
    tmp_path: Path, postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with DatabaseProxy(postgresql_url) as line:
        with borrowed_app(Settings(home=tmp_path, database_url=line.url)) as app:
            async with app.router.lifespan_context(app):
                assert "database" not in (await _get(app, "/readyz")).json()["missing"]
                line.freeze()
                monkeypatch.setattr(health, "_CHECK_SECONDS", 0.2)
                async with asyncio.timeout(PATIENCE / 2):
                    answers = await asyncio.gather(*(_get(app, "/readyz") for _ in range(30)))
                line.thaw()
    assert {answer.status_code for answer in answers} == {503}
    assert answers[0].json()["missing"] == ["database", "temporal"]


async def test_a_newer_schema_is_ready(app: FastAPI, context: Context) -> None:
    """A new version migrates first: until its processes are up, the old ones must serve."""
    async with context.database.write() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    assert "migrations" not in (await _get(app, "/readyz")).json()["missing"]

"""`GET /metrics` of the API: who may read it, and its gauges while the database is away."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr

from api.context.context import Context
from api.context.gauges import DatabaseGauges
from hookfast.settings.settings import Settings
from hookfast.storage.database.engine import Database
from hookfast.telemetry import exposition
from tests.support.api_client import OPERATOR_KEY, KeyClient, Make, assert_problem, running_app

pytestmark = pytest.mark.anyio

ELSEWHERE = "203.0.113.7"
TOKEN = "a-token-for-metrics"


async def _get(
    app: FastAPI, *, address: str = "127.0.0.1", host: str = "127.0.0.1:8080", **headers: str
) -> httpx2.Response:
    transport = httpx2.ASGITransport(app, client=(address, 40_000))
    async with httpx2.AsyncClient(transport=transport, base_url=f"http://{host}") as client:
        return await client.get("/metrics", headers=headers)


def _values(text: str) -> dict[str, float]:
    """Return our own metrics without labels. Those of all earlier requests of this process take
    long to parse."""
    text = "".join(line for line in text.splitlines(keepends=True) if "hookfast_" in line)
    return {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.labels
    }


@pytest.fixture
async def guarded(settings: Settings) -> AsyncIterator[FastAPI]:
    """The application with a token for its metrics."""
    settings = settings.model_copy(update={"metrics_token": SecretStr(TOKEN)})
    async with running_app(settings) as app:
        yield app


async def test_only_this_machine_may_read_metrics(app: FastAPI) -> None:
    answer = await _get(app)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert _values(answer.text)["hookfast_database_up"] == 1
    assert_problem(await _get(app, address=ELSEWHERE), 401, code="unauthenticated")


@pytest.mark.parametrize("header", ["Forwarded", "X-Forwarded-For", "X-Real-IP", "Via"])
async def test_client_behind_a_local_proxy_is_not_this_machine(app: FastAPI, header: str) -> None:
    assert_problem(await _get(app, **{header: "127.0.0.1"}), 401, code="unauthenticated")


async def test_request_for_a_foreign_host_name_is_denied(
    app: FastAPI,
) -> None:
    """A foreign page's requests come from a browser on this machine, with the page's host name (DNS
    rebinding)."""
    assert_problem(await _get(app, host="attacker.example"), 401, code="unauthenticated")
    for host in ("localhost:8080", "[::1]:8080"):
        assert (await _get(app, host=host)).status_code == 200


async def test_configured_token_is_required_on_this_machine_too(guarded: FastAPI) -> None:
    assert_problem(await _get(guarded), 401, code="unauthenticated")
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    answer = await _get(guarded, address=ELSEWHERE, host="api-1:8080", **bearer)
    assert answer.status_code == 200


async def test_operator_key_may_always_read_metrics(app: FastAPI, guarded: FastAPI) -> None:
    key = {"Authorization": f"Bearer {OPERATOR_KEY}"}
    for each in (app, guarded):
        assert (await _get(each, address=ELSEWHERE, **key)).status_code == 200


async def test_tenant_key_may_not_read_metrics(
    app: FastAPI, make_tenant: Make, key_client: KeyClient
) -> None:
    tenant = await make_tenant()
    async with key_client(tenant["id"]) as theirs:
        key = {"Authorization": theirs.headers["authorization"]}
        assert_problem(await _get(app, address=ELSEWHERE, **key), 403, code="forbidden")


async def test_gauges_have_no_value_while_the_database_is_away(
    app: FastAPI, context: Context, tmp_path: Path
) -> None:
    assert "hookfast_outbox_backlog" in _values((await _get(app)).text)

    async with Database(f"sqlite+aiosqlite:///{tmp_path}/empty.db") as without_tables:
        await DatabaseGauges(without_tables, context.settings, clock=context.clock).refresh()
        values = _values(exposition.text(context.telemetry.registry).decode())

    assert values["hookfast_database_up"] == 0
    assert "hookfast_outbox_backlog" not in values
    assert "hookfast_workers" not in values

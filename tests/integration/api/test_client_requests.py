"""The limit of requests in progress of one client behind a trusted proxy."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from ipaddress import ip_network
from pathlib import Path

import pytest

from hookfast.settings.settings import Settings
from tests.integration.api.stream.conftest import Served, serving
from tests.support.api_client import assert_problem, development_settings
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

LIMIT = 3


@pytest.fixture
def settings(sqlite_url: str, tmp_path: Path) -> Settings:
    changes = {
        "trusted_proxies": (ip_network("127.0.0.1/32"),),
        "max_connections_per_client": LIMIT,
    }
    return development_settings(sqlite_url, tmp_path).model_copy(update=changes)


def _from(address: str) -> dict[str, str]:
    return {"X-Forwarded-For": address}


async def _open_stream(served: Served, opened: AsyncExitStack, address: str) -> None:
    answer = await opened.enter_async_context(
        served.operator.stream("GET", "/stream", headers=_from(address))
    )
    assert answer.status_code == 200


async def test_one_more_request_in_progress_gets_429_and_other_clients_do_not(
    settings: Settings,
) -> None:
    async with serving(settings) as served:
        async with AsyncExitStack() as opened:
            for number in range(LIMIT):  # addresses of one site
                await _open_stream(served, opened, f"2001:db8::{number + 1}")
            answer = await served.operator.get("/tenants", headers=_from("2001:db8::99"))
            assert_problem(answer, 429, code="too_many_in_progress")
            assert int(answer.headers["retry-after"]) > 0
            for other in ("2001:db8:0:1::1", "203.0.113.7"):
                answer = await served.operator.get("/tenants", headers=_from(other))
                assert answer.status_code == 200
        async with asyncio.timeout(PATIENCE):
            while True:  # the server has not noticed yet that the streams were closed
                answer = await served.operator.get("/tenants", headers=_from("2001:db8::1"))
                if answer.status_code == 200:
                    break
                await asyncio.sleep(0.02)


async def test_requests_whose_client_the_proxy_does_not_name_are_not_limited(
    settings: Settings,
) -> None:
    async with serving(settings) as served, AsyncExitStack() as opened:
        for _ in range(2 * LIMIT):
            await _open_stream(served, opened, "unknown")
        assert (await served.operator.get("/tenants")).status_code == 200

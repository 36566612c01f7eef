"""The API as `hookfast api` serves it: proxy headers and the server header."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
import uvicorn
from starlette.requests import Request

from api.access.client_address import client_address
from api.app import create_app
from hookfast.cli.api import server_config
from hookfast.settings.settings import Settings
from tests.e2e.service_process import NO_TLS

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["", "127.0.0.0/8"], ids=["no proxies", "loopback is a proxy"])
def settings(request: pytest.FixtureRequest, sqlite_url: str, tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, database_url=sqlite_url, trusted_proxies=request.param)


@pytest.fixture
async def base_url(settings: Settings) -> AsyncIterator[str]:
    """A real server, whose application also answers `/whoami` with the client's address."""
    config = server_config(create_app(settings))

    @config.app.get("/whoami")
    async def whoami(request: Request) -> dict[str, str | None]:
        return {"client": client_address(request), "scheme": request.url.scheme}

    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started:  # noqa: ASYNC110 - uvicorn offers no event for it
            await asyncio.sleep(0.01)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        await serving


async def test_only_configured_proxies_are_trusted(base_url: str, settings: Settings) -> None:
    """uvicorn by default trusts every process on the same machine."""
    headers = {"X-Forwarded-For": "203.0.113.7", "X-Forwarded-Proto": "https"}
    async with httpx2.AsyncClient(base_url=base_url, verify=NO_TLS) as client:
        answer = await client.get("/whoami", headers=headers)
    if settings.trusted_proxies:
        assert answer.json() == {"client": "203.0.113.7", "scheme": "https"}
    else:
        assert answer.json() == {"client": "127.0.0.1", "scheme": "http"}
    assert ("strict-transport-security" in answer.headers) == bool(settings.trusted_proxies)


async def test_response_does_not_name_the_server_software(base_url: str) -> None:
    async with httpx2.AsyncClient(base_url=base_url, verify=NO_TLS) as client:
        for path in ("/healthz", "/nothing"):
            answer = await client.get(path)
            assert "server" not in answer.headers
            assert "x-powered-by" not in answer.headers
            assert "uvicorn" not in str(answer.headers).lower()

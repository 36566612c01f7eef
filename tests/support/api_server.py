"""The API as `hookfast api` serves it, run inside the test process."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass

import uvicorn
from fastapi import FastAPI

from api.access.authentication import ensure_operator_key
from api.app import create_app
from api.process.context import Context
from hookfast.cli.api import server_config
from hookfast.settings.settings import Settings
from tests.support.waiting import PATIENCE

_IDLE_APPS: list[FastAPI] = []


@dataclass(frozen=True, slots=True)
class ApiServer:
    """A running API server: its URL, the application's context, and uvicorn's server."""

    url: str
    context: Context
    uvicorn: uvicorn.Server

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])


@asynccontextmanager
async def api_server(settings: Settings) -> AsyncIterator[ApiServer]:
    """Run an API server on a free loopback port, and create its operator key."""
    app = _borrow_app(settings)
    config = server_config(app)
    server = uvicorn.Server(config)
    server.capture_signals = nullcontext  # type: ignore[method-assign] # pytest keeps its own
    with socket.create_server(("127.0.0.1", 0)) as listener:
        task = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            async with asyncio.timeout(PATIENCE):
                while not server.started:  # noqa: ASYNC110 - uvicorn has no event for this
                    await asyncio.sleep(0.01)
            context: Context = app.state.context
            await ensure_operator_key(context.database, settings, clock=context.clock)
            yield ApiServer(f"http://127.0.0.1:{listener.getsockname()[1]}", context, server)
        finally:
            server.should_exit = True
            await task
    if not settings.trusted_proxies:
        _IDLE_APPS.append(app)


def _borrow_app(settings: Settings) -> FastAPI:
    """Return an application that no other server runs. FastAPI builds an application's routes at
    its first request, which takes longer than most tests; its settings are read at each start,
    except for the trusted proxies."""
    if settings.trusted_proxies or not _IDLE_APPS:
        return create_app(settings)
    app = _IDLE_APPS.pop()
    app.state.settings = settings
    return app

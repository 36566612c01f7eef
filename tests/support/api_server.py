"""The API as `hookfast api` serves it, run inside the test process."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass

import uvicorn
from fastapi import FastAPI

from api.app import create_app
from api.context.context import Context
from hookfast.cli.api import server_config
from hookfast.connections.listening import limit_unsent
from hookfast.settings.settings import Settings
from hookfast.storage.keys.new_keys import ensure_operator_key
from tests.support.api_client import borrowed_app
from tests.support.waiting import PATIENCE


@dataclass(frozen=True, slots=True)
class ApiServer:
    """A running API server: its URL, the application's context, and uvicorn's server."""

    url: str
    context: Context
    uvicorn: uvicorn.Server

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])


class _Server(uvicorn.Server):
    """A server that stops at once. uvicorn's looks every 0.1 s whether it should, which is longer
    than many tests take."""

    capture_signals = nullcontext  # pytest keeps its own

    async def main_loop(self) -> None:
        self._running = asyncio.create_task(super().main_loop())
        await asyncio.wait({self._running})

    def stop(self) -> None:
        self.should_exit = True
        self._running.cancel()


@asynccontextmanager
async def api_server(settings: Settings) -> AsyncIterator[ApiServer]:
    """Run an API server on a free loopback port, and create its operator key."""
    with borrowed_app(settings) as app:
        async with _serving(app, settings) as server:
            yield server


@asynccontextmanager
async def _serving(app: FastAPI, settings: Settings) -> AsyncIterator[ApiServer]:
    config = server_config(app)
    server = _Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        limit_unsent(listener)
        task = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            async with asyncio.timeout(PATIENCE):
                while not server.started:  # noqa: ASYNC110 - uvicorn has no event for this
                    await asyncio.sleep(0.01)
            context: Context = app.state.context
            await ensure_operator_key(context.database, settings, clock=context.clock)
            yield ApiServer(f"http://127.0.0.1:{listener.getsockname()[1]}", context, server)
        finally:
            server.stop()
            await task


@asynccontextmanager
async def served_on(settings: Settings, listener: socket.socket) -> AsyncIterator[Context]:
    """Run an API server of its own application on a listener, which outlives it."""
    config = server_config(create_app(settings))
    server = uvicorn.Server(config)
    with socket.socket(fileno=socket.dup(listener.fileno())) as own:
        serving = asyncio.create_task(server.serve(sockets=[own]))
        async with asyncio.timeout(PATIENCE):
            while not server.started:  # noqa: ASYNC110 - it has no event to wait for
                await asyncio.sleep(0.01)
        context: Context = config.app.state.context  # type: ignore[union-attr]
        await ensure_operator_key(context.database, settings, clock=context.clock)
        try:
            yield context
        finally:
            server.should_exit = True
            await serving

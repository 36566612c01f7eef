"""A server of `BoundedHttp` for an ASGI application, run inside the test process."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import uvicorn
from starlette.types import ASGIApp

from hookfast.connections.connections import ConnectionLimits, Connections, SiteOf
from hookfast.connections.listening import limit_unsent
from hookfast.connections.protocol import BoundedHttp


@asynccontextmanager
async def http_server(
    app: ASGIApp,
    limits: ConnectionLimits,
    *,
    protocol: type[BoundedHttp] = BoundedHttp,
    site_of: SiteOf = lambda peer: peer,
) -> AsyncIterator[int]:
    """Serve the application on a free loopback port, and return that. Every address of loopback is
    a site of its own."""
    http = partial(protocol, connections=Connections(limits, site_of=site_of))
    config = uvicorn.Config(app, http=http, lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        limit_unsent(listener)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started:  # noqa: ASYNC110 - uvicorn offers no event for it
            await asyncio.sleep(0.01)
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = server.force_exit = True
            await serving

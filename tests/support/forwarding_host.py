"""A host that forwards each request to another server, with its headers and body, and returns the
answer."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.support.waiting import PATIENCE

_OWN = {"host", "content-length", "connection"}  # of each connection


@asynccontextmanager
async def forwarding_host(target: str) -> AsyncIterator[str]:
    """Run a host that forwards to the server at the URL `target`; its own URL is the result."""
    async with httpx2.AsyncClient(base_url=target) as client:

        async def forward(request: Request) -> Response:
            headers = [(name, value) for name, value in request.headers.items() if name not in _OWN]
            body = await request.body()
            answer = await client.post(request.url.path, headers=headers, content=body)
            return Response(answer.content, answer.status_code)

        app = Starlette(routes=[Route("/{path:path}", forward, methods=["POST"])])
        server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_config=None))
        server.capture_signals = nullcontext  # type: ignore[method-assign] # pytest keeps its own
        with socket.create_server(("127.0.0.1", 0)) as listener:
            task = asyncio.create_task(server.serve(sockets=[listener]))
            try:
                async with asyncio.timeout(PATIENCE):
                    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for this
                        await asyncio.sleep(0.01)
                yield f"http://127.0.0.1:{listener.getsockname()[1]}"
            finally:
                server.should_exit = True
                await task

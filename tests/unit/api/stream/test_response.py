"""A stream to a slow client asks for its next piece only when the client can take it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest
from starlette.types import Message

from api.stream.response import StreamResponse
from api.stream.slots import StreamSlots

pytestmark = pytest.mark.anyio


async def test_right_is_checked_after_the_wait_for_a_slow_client_and_not_before() -> None:
    """Otherwise a client that stops reading gets one more piece after its key was revoked."""
    sent: list[bytes] = []
    readable = asyncio.Event()
    waits = asyncio.Event()
    is_allowed = True

    async def pieces() -> AsyncGenerator[bytes]:
        yield b"first"
        if is_allowed:
            yield b"second"

    async def send(message: Message) -> None:
        # as uvicorn does: once the buffer is full, the next message waits before it is written
        if sent and not readable.is_set():
            waits.set()
            await readable.wait()
        if message.get("body"):
            sent.append(message["body"])

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    response = StreamResponse(pieces(), slots=StreamSlots(1), tenant_id=None)
    scope = {"type": "http", "extensions": {}}
    sending = asyncio.create_task(response(scope, receive, send))
    async with asyncio.timeout(60):
        await waits.wait()
        is_allowed = False
        readable.set()
        await sending
    assert sent == [b"first"]

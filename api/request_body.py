"""Reads each request's body before the application sees the request.

One place bounds a body's size (declared or chunked) and the time it may take to arrive, so nothing
behind it can be made to wait or to fill memory. The application gets the body as one message.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.problems import BodyTimeout, problem_of
from hookfast.errors import HookfastError, InvalidInput, TooLarge
from hookfast.settings import Settings

BATCH_PATH = "/v1/events/batch"

_LINGER_SECONDS = 2.0


class RequestBody:
    """ASGI middleware. Answers 413 over the cap and 408 over `max_body_seconds`."""

    def __init__(self, app: ASGIApp, *, settings: Settings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            body = await self._read(scope, receive)
        except HookfastError as error:
            await _refuse(error, scope, receive, send)
            return
        if body is not None:
            await self._app(scope, _replay(body, receive), send)

    async def _read(self, scope: Scope, receive: Receive) -> bytes | None:
        """The whole body, or None when the client left before it was complete."""
        settings = self._settings
        is_batch = scope["method"] == "POST" and scope["path"] == BATCH_PATH
        cap = settings.max_batch_bytes if is_batch else settings.max_event_bytes
        if _declared_length(scope["headers"]) > cap:
            raise _too_large(cap)
        seconds = settings.max_body_seconds.total_seconds()
        try:
            async with asyncio.timeout(seconds):
                return await _collect(receive, cap)
        except TimeoutError:
            raise BodyTimeout(f"The body did not arrive within {seconds:g} seconds.") from None


async def _refuse(error: HookfastError, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the problem and close the connection, but not while the client still sends: the
    reset that follows would destroy the answer before a client that reads late has seen it."""
    response = problem_of(error).response()
    response.headers["Connection"] = "close"

    async def keep_open(message: Message) -> None:
        if message["type"] == "http.response.body":
            message = {**message, "more_body": True}
        await send(message)

    await response(scope, receive, keep_open)
    if isinstance(error, TooLarge) and not _waits_to_send(scope["headers"]):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_SECONDS):
                await _discard(receive)
    await send({"type": "http.response.body", "body": b""})


async def _discard(receive: Receive) -> None:
    while (await receive()).get("more_body", False):
        pass


def _waits_to_send(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether the client asked before sending its body (`Expect: 100-continue`)."""
    return any(name == b"expect" for name, _ in headers)


async def _collect(receive: Receive, cap: int) -> bytes | None:
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > cap:
            raise _too_large(cap)
        chunks.append(chunk)
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _replay(body: bytes, receive: Receive) -> Receive:
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return pending.pop() if pending else await receive()

    return replay


def _declared_length(headers: Iterable[tuple[bytes, bytes]]) -> int:
    """Content-Length, or 0 where there is none."""
    for name, value in headers:
        if name == b"content-length":
            if not value.isdigit() or len(value) > 18:
                raise InvalidInput.at("Content-Length", "Content-Length is not a length in bytes")
            return int(value)
    return 0


def _too_large(cap: int) -> TooLarge:
    return TooLarge(f"The body is larger than {cap} bytes, which is the most this path takes.")

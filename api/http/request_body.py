"""Middleware that reads each request's body, within bounds, before the application runs.

It bounds the size of a body (declared or chunked), the time that it may take to arrive, and the
memory of all bodies together, so that no caller can make the application wait or fill its memory.
The application gets the body as one message. Routes that parse it call `body_to_parse`, which
reserves memory for the parsed values.

Inbound webhooks are the exception: their source is checked before their body is read. Their route
reads the body itself, through `streamed_body`, under the same bounds.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from contextlib import AsyncExitStack

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.access.authentication import check_key
from api.answers.problems import (
    BodyTimeout,
    Problem,
    UnsupportedMediaType,
    problem_of,
    problem_of_unexpected,
)
from api.context.context import Context
from api.limits.body_memory import BodyMemory, Share
from hookfast.errors import HookfastError, InvalidInput, TooLarge
from hookfast.settings.settings import Settings

BATCH_PATH = "/v1/events/batch"
API_PREFIX = "/v1/"
INBOUND_PREFIX = "/in/"

_SHORT_BYTES = 16_384
"""A longer body to the API is read only after its key was checked. Shorter bodies cost less than
their connections and are not counted: otherwise unauthenticated callers could use up the memory for
all of them."""

_WITHOUT_BODIES = ("GET", "HEAD")
"""Bodies of these methods have no meaning (RFC 9110, section 9.3.1). They are read and dropped: a
stream would keep their memory for hours."""

_LINGER_SECONDS = 2.0


class RequestBody:
    """ASGI middleware that reads bodies. It responds with 413 over the size limit, 408 over
    `max_body_seconds`, 415 if it is compressed, 503 if all bodies together need too much memory,
    and 401 or 429 for a long body to the API without a valid key."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["method"] == "POST" and scope["path"].startswith(INBOUND_PREFIX):
            await self._streamed(scope, receive, send)
            return
        async with AsyncExitStack() as memory:
            try:
                body = await self._read(scope, receive, memory)
            except HookfastError as error:
                lingers = not isinstance(error, BodyTimeout)
                await reject(problem_of(error), scope, receive, send, lingers=lingers)
                return
            except Exception as error:  # from the database: the key could not be looked up
                await reject(problem_of_unexpected(Request(scope), error), scope, receive, send)
                return
            if body is not None:
                # not in a copy: the access log, outside of this, reads the route from the scope
                scope[_MEMORY] = memory
                await self._app(scope, _replay(body, receive), send)

    async def _streamed(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application before its body is read; its route calls `streamed_body`."""
        settings: Settings = scope["app"].state.settings
        async with AsyncExitStack() as memory:
            body = StreamedBody(
                scope,
                receive,
                cap=settings.max_inbox_bytes,
                seconds=settings.max_body_seconds.total_seconds(),
                memory=memory,
            )
            await self._run(body, scope, send)

    async def _run(self, body: StreamedBody, scope: Scope, send: Send) -> None:
        async def send_response(message: Message) -> None:
            if not body.complete and message["type"] == "http.response.start":
                headers = [*message.get("headers", ()), (b"connection", b"close")]
                message = {**message, "headers": headers}
            is_last = message["type"] == "http.response.body" and not message.get("more_body")
            if body.complete or not is_last:
                await send(message)
                return
            await send({**message, "more_body": True})
            await body.discard()
            await send({"type": "http.response.body", "body": b""})

        scope[_STREAMED] = body
        await self._app(scope, body.receive, send_response)

    async def _read(self, scope: Scope, receive: Receive, memory: AsyncExitStack) -> bytes | None:
        """Read the whole body, or return None if the client disconnected before it was complete.
        Its memory stays reserved as long as `memory` is open."""
        settings: Settings = scope["app"].state.settings
        is_batch = scope["method"] == "POST" and scope["path"] == BATCH_PATH
        cap = settings.max_batch_bytes if is_batch else settings.max_event_bytes
        if _declared_length(scope["headers"]) > cap:
            raise _too_large(cap)
        if scope["method"] not in _WITHOUT_BODIES:
            _check_coding(scope["headers"])
        share = None
        if is_batch or _may_be_long(scope["headers"]):
            bodies = _bodies(scope)
            if scope["path"].startswith(API_PREFIX):
                # only authenticated callers may use that much memory
                key = await check_key(Request(scope))
                share = memory.enter_context(bodies.authenticated.share(key.tenant_id or ""))
                await share.reserve(_declared_length(scope["headers"]))
            else:
                share = memory.enter_context(bodies.unauthenticated.share(""))
        seconds = settings.max_body_seconds.total_seconds()
        try:
            async with asyncio.timeout(seconds):
                body = await _collect(receive, cap, share)
        except TimeoutError:
            raise BodyTimeout(f"The body did not arrive within {seconds:g} seconds.") from None
        if scope["method"] in _WITHOUT_BODIES:
            await memory.aclose()
            return None if body is None else b""
        return body


_MEMORY = "hookfast.body_memory"


async def body_to_parse(request: Request) -> bytes:
    """Return the request's body, with memory reserved for its parsed values until the response is
    sent. Call it once per request. Raises Unavailable (`overloaded`)."""
    body = await request.body()
    if body:
        memory: AsyncExitStack = request.scope[_MEMORY]
        await memory.enter_async_context(_bodies(request.scope).parsed.reserve(body))
    return body


_STREAMED = "hookfast.streamed_body"


class StreamedBody:
    """A body that has not been read yet. A response that is sent before the body was read closes
    the connection, but not while the client is still sending: see `reject`."""

    def __init__(
        self, scope: Scope, receive: Receive, *, cap: int, seconds: float, memory: AsyncExitStack
    ) -> None:
        self._scope = scope
        self._headers = scope["headers"]
        self._memory = memory
        self._receive = receive
        self._cap = cap
        self._seconds = seconds
        self.complete = False
        self._too_late = False

    async def read(self) -> bytes:
        """Return the whole body. Its memory stays reserved until the response is sent. Raises
        TooLarge, at once if the length is declared; BodyTimeout, also if the client disconnected;
        Unavailable."""
        if _declared_length(self._headers) > self._cap:
            raise _too_large(self._cap)
        bodies = _bodies(self._scope)
        share = self._memory.enter_context(bodies.unauthenticated.share(self._scope["path"]))
        try:
            async with asyncio.timeout(self._seconds):
                body = await _collect(self._receive, self._cap, share)
        except TimeoutError:
            self._too_late = True
            raise BodyTimeout(
                f"The body did not arrive within {self._seconds:g} seconds."
            ) from None
        self.complete = True
        if body is None:
            raise BodyTimeout("The client disconnected before the body was complete.")
        await self._memory.enter_async_context(bodies.parsed.reserve(body))
        return body

    async def receive(self) -> Message:
        """Return an empty body, and later the client's disconnection: ASGI `receive` for the
        application."""
        if not self.complete:
            return {"type": "http.request", "body": b"", "more_body": False}
        return await self._receive()

    async def discard(self) -> None:
        """Read and drop what the client still sends, for at most two seconds."""
        if not self._too_late:
            await _discard(self._headers, self._receive)


def streamed_body(request: Request) -> StreamedBody:
    """Return the unread body of a request to `POST /in/…`."""
    body: StreamedBody = request.scope[_STREAMED]
    return body


async def reject(
    problem: Problem,
    scope: Scope,
    receive: Receive,
    send: Send,
    *,
    lingers: bool = True,
) -> None:
    """Respond with the problem and close the connection, but not while the client is still sending:
    the reset that would follow destroys the response before a slow client has read it."""
    response = problem.response(scope)
    response.headers["Connection"] = "close"

    async def keep_open(message: Message) -> None:
        if message["type"] == "http.response.body":
            message = {**message, "more_body": True}
        await send(message)

    await response(scope, receive, keep_open)
    if lingers:
        await _discard(scope["headers"], receive)
    await send({"type": "http.response.body", "body": b""})


async def _discard(headers: Iterable[tuple[bytes, bytes]], receive: Receive) -> None:
    """Read and drop the rest of the body for at most two seconds, unless the client waits for
    permission to send it (`Expect: 100-continue`)."""
    if any(name == b"expect" for name, _ in headers):
        return
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            while (await receive()).get("more_body", False):
                pass


async def _collect(receive: Receive, cap: int, share: Share | None) -> bytes | None:
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
        if share is not None:
            share.grow(len(chunk))
        chunks.append(chunk)
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _replay(body: bytes, receive: Receive) -> Receive:
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return pending.pop() if pending else await receive()

    return replay


def _bodies(scope: Scope) -> BodyMemory:
    context: Context = scope["app"].state.context
    return context.bodies


def _may_be_long(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    chunked = any(name == b"transfer-encoding" for name, _ in headers)
    return chunked or _declared_length(headers) > _SHORT_BYTES


def _declared_length(headers: Iterable[tuple[bytes, bytes]]) -> int:
    """Return Content-Length, or 0 if the header is missing."""
    for name, value in headers:
        if name == b"content-length":
            if not value.isdigit() or len(value) > 18:
                raise InvalidInput.at("Content-Length", "Content-Length is not a length in bytes")
            return int(value)
    return 0


def _check_coding(headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Raise UnsupportedMediaType for a compressed body (RFC 9110, section 15.5.16)."""
    for name, value in headers:
        if name == b"content-encoding" and value.lower() not in (b"", b"identity"):
            raise UnsupportedMediaType(
                "Send the body as it is, without compression and `Content-Encoding`.",
                code="unsupported_content_encoding",
            )


def _too_large(cap: int) -> TooLarge:
    return TooLarge(f"The body is larger than {cap} bytes, the maximum for this path.")

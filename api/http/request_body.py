"""Middleware that reads each request's body, within bounds, before the application runs.

It bounds the size of a body (declared or chunked), the time that it may take to arrive and the
memory of all bodies together (`hookfast.byte_budget`), so that no caller can make the application
wait or fill its memory. The application gets the body as one message. Routes that parse it call
`body_to_parse`, which reserves memory for the parsed values.

Inbound webhooks are the exception: their source is checked before their body is read. Their route
reads the body itself, through `streamed_body`, under the same bounds.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from contextlib import AsyncExitStack
from functools import partial

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.access.authentication import check_key
from api.access.body_owners import owners_of, stranger_owners, tenant_owners
from api.answers.problems import (
    BodyTimeout,
    Problem,
    UnsupportedMediaType,
    problem_of,
    problem_of_unexpected,
)
from api.context.context import Context
from api.http.arriving_body import ArrivingBody, declared_length, too_large
from api.limits.parsed_size import parsed_size
from hookfast.byte_budget import SMALL_BYTES
from hookfast.errors import HookfastError
from hookfast.settings.settings import Settings

BATCH_PATH = "/v1/events/batch"
API_PREFIX = "/v1/"
INBOUND_PREFIX = "/in/"

_WITHOUT_BODIES = ("GET", "HEAD")
"""Bodies of these methods have no meaning (RFC 9110, section 9.3.1). They are read and dropped: a
stream would keep their memory for hours."""

_LINGER_SECONDS = 2.0
_LINGER_BYTES = 33_554_432
"""What is read of a refused body at most, so that its sender sees the answer: GitHub's largest
webhooks have 25 MB."""


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
            body = StreamedBody(scope, receive, cap=settings.max_inbox_bytes, memory=memory)
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
        if declared_length(scope["headers"]) > cap:
            raise too_large(cap)
        if scope["method"] not in _WITHOUT_BODIES:
            _check_coding(scope["headers"])
        owners = partial(stranger_owners, scope)
        may_be_long = is_batch or _may_be_long(scope["headers"])
        if may_be_long and scope["path"].startswith(API_PREFIX):
            # only authenticated callers may use that much memory
            owners = partial(tenant_owners, (await check_key(Request(scope))).tenant_id)
        arriving = ArrivingBody(scope, receive, cap=cap, owners=owners, memory=memory)
        body = await arriving.read()
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
        await _reserve_parsed(request.scope, body, memory)
    return body


async def _reserve_parsed(scope: Scope, body: bytes, memory: AsyncExitStack) -> None:
    """Reserve memory for the body's parsed values as long as `memory` is open. They take many times
    its size if they are small. A body that needs more than half of the budget is counted as half,
    so that it can run, and smaller bodies beside it. Raises NoRoom."""
    context = _context(scope)
    claim = memory.enter_context(context.parsed_bodies.claim("parsed body", *owners_of(scope)))
    await claim.grow(min(parsed_size(body), context.parsed_bodies.largest))


_STREAMED = "hookfast.streamed_body"


class StreamedBody:
    """A body that has not been read yet. A response that is sent before the body was read closes
    the connection, but not while the client is still sending: see `reject`."""

    def __init__(self, scope: Scope, receive: Receive, *, cap: int, memory: AsyncExitStack) -> None:
        self._scope = scope
        self._memory = memory
        self._receive = receive
        self._cap = cap
        self.complete = False
        self._too_late = False

    async def read(self) -> bytes:
        """Return the whole body. Its memory stays reserved until the response is sent. Raises
        TooLarge, at once if the length is declared; BodyTimeout, also if the client disconnected;
        NoRoom."""
        scope = self._scope
        if declared_length(scope["headers"]) > self._cap:
            raise too_large(self._cap)
        arriving = ArrivingBody(
            scope,
            self._receive,
            cap=self._cap,
            owners=partial(stranger_owners, scope),
            memory=self._memory,
        )
        try:
            body = await arriving.read()
        except BodyTimeout:
            self._too_late = True
            raise
        self.complete = True
        if body is None:
            raise BodyTimeout("The client disconnected before the body was complete.")
        await _reserve_parsed(scope, body, self._memory)
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
            await _discard(self._scope["headers"], self._receive)


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
    """Read and drop the rest of the body, at most two seconds and 32 MiB of it, unless the client
    waits for permission to send it (`Expect: 100-continue`)."""
    if any(name == b"expect" for name, _ in headers):
        return
    left = _LINGER_BYTES
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            while left > 0 and (message := await receive()).get("more_body", False):
                left -= len(message["body"])


def _replay(body: bytes, receive: Receive) -> Receive:
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return pending.pop() if pending else await receive()

    return replay


def _context(scope: Scope) -> Context:
    context: Context = scope["app"].state.context
    return context


def _may_be_long(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    chunked = any(name == b"transfer-encoding" for name, _ in headers)
    return chunked or declared_length(headers) > SMALL_BYTES


def _check_coding(headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Raise UnsupportedMediaType for a compressed body (RFC 9110, section 15.5.16)."""
    for name, value in headers:
        if name == b"content-encoding" and value.lower() not in (b"", b"identity"):
            raise UnsupportedMediaType(
                "Send the body as it is, without compression and `Content-Encoding`.",
                code="unsupported_content_encoding",
            )

"""Reads each request's body before the application sees the request.

One place bounds a body's size (declared or chunked), the time it may take to arrive, and the memory
that all of them take, so nothing behind it can be made to wait or to fill memory. The application
gets the body as one message; whoever parses it takes it by `body_to_parse`, which has room for what
it becomes.

Inbound webhooks are the exception: whether their source exists and takes them is asked before their
bodies are. Their route reads the body itself, through `streamed_body`, under the same bounds.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from contextlib import AsyncExitStack

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.access.authentication import check_key
from api.answers.problems import BodyTimeout, Problem, problem_for, problem_of
from api.limits.body_memory import BodyMemory, Share
from api.process.context import Context
from hookfast.errors import HookfastError, InvalidInput, TooLarge
from hookfast.settings.settings import Settings

BATCH_PATH = "/v1/events/batch"
API_PREFIX = "/v1/"
INBOUND_PREFIX = "/in/"

_SHORT_BYTES = 16_384
"""A longer body to the API is not read before its key is known. A shorter one costs less than its
connection, and is not counted: else strangers could use up what there is for all short ones."""

_WITHOUT_BODIES = ("GET", "HEAD")
"""A body that comes with these means nothing (RFC 9110, section 9.3.1). It is taken and dropped: a
stream would keep its memory for hours."""

_LINGER_SECONDS = 2.0


class RequestBody:
    """ASGI middleware. Answers 413 over the cap, 408 over `max_body_seconds`, 503 where too much is
    in hand, and 401 or 429 for a long body to the API without a valid key."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["method"] == "POST" and scope["path"].startswith(INBOUND_PREFIX):
            await self._streamed(scope, receive, send)
            return
        async with AsyncExitStack() as held:
            try:
                body = await self._read(scope, receive, held)
            except HookfastError as error:
                lingers = not isinstance(error, BodyTimeout)
                await _refuse(problem_of(error), scope, receive, send, lingers=lingers)
                return
            except Exception as error:  # the database's: the key could not be looked up
                await _refuse(problem_for(Request(scope), error), scope, receive, send)
                return
            if body is not None:
                await self._app({**scope, _HELD: held}, _replay(body, receive), send)

    async def _streamed(self, scope: Scope, receive: Receive, send: Send) -> None:
        settings: Settings = scope["app"].state.settings
        async with AsyncExitStack() as held:
            body = StreamedBody(
                scope,
                receive,
                cap=settings.max_inbox_bytes,
                seconds=settings.max_body_seconds.total_seconds(),
                held=held,
            )
            await self._answered(body, scope, send)

    async def _answered(self, body: StreamedBody, scope: Scope, send: Send) -> None:
        async def answer(message: Message) -> None:
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

        await self._app({**scope, _STREAMED: body}, body.receive, answer)

    async def _read(self, scope: Scope, receive: Receive, held: AsyncExitStack) -> bytes | None:
        """The whole body, or None when the client left before it was complete. Its memory is taken
        for as long as `held` is open."""
        settings: Settings = scope["app"].state.settings
        is_batch = scope["method"] == "POST" and scope["path"] == BATCH_PATH
        cap = settings.max_batch_bytes if is_batch else settings.max_event_bytes
        if _declared_length(scope["headers"]) > cap:
            raise _too_large(cap)
        share = None
        if is_batch or _may_be_long(scope["headers"]):
            bodies = _bodies(scope)
            if scope["path"].startswith(API_PREFIX):
                # only those we know may make us hold that much
                key = await check_key(Request(scope))
                share = held.enter_context(bodies.known.share(key.tenant_id or ""))
                await share.reserve(_declared_length(scope["headers"]))
            else:
                share = held.enter_context(bodies.strangers.share(""))
        seconds = settings.max_body_seconds.total_seconds()
        try:
            async with asyncio.timeout(seconds):
                body = await _collect(receive, cap, share)
        except TimeoutError:
            raise BodyTimeout(f"The body did not arrive within {seconds:g} seconds.") from None
        if scope["method"] in _WITHOUT_BODIES:
            await held.aclose()
            return None if body is None else b""
        return body


_HELD = "hookfast.held"


async def body_to_parse(request: Request) -> bytes:
    """The request's body, with room for what it becomes until the request is answered. To be called
    once. Raises Unavailable (`overloaded`)."""
    body = await request.body()
    if body:
        held: AsyncExitStack = request.scope[_HELD]
        await held.enter_async_context(_bodies(request.scope).parsed.room(body))
    return body


_STREAMED = "hookfast.streamed_body"


class StreamedBody:
    """A body that has not been taken yet. An answer that is given before it was ends the
    connection, but not while the client still sends: see `_refuse`."""

    def __init__(
        self, scope: Scope, receive: Receive, *, cap: int, seconds: float, held: AsyncExitStack
    ) -> None:
        self._scope = scope
        self._headers = scope["headers"]
        self._held = held
        self._receive = receive
        self._cap = cap
        self._seconds = seconds
        self.complete = False
        self._too_late = False

    async def read(self) -> bytes:
        """The whole body, whose memory is taken until the request is answered. Raises TooLarge, at
        once where the length is declared; BodyTimeout, also where the client left; Unavailable."""
        if _declared_length(self._headers) > self._cap:
            raise _too_large(self._cap)
        bodies = _bodies(self._scope)
        share = self._held.enter_context(bodies.strangers.share(self._scope["path"]))
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
            raise BodyTimeout("The client left before the body was complete.")
        await self._held.enter_async_context(bodies.parsed.room(body))
        return body

    async def receive(self) -> Message:
        """For the application, to which the body is not there: only that the client left."""
        if not self.complete:
            return {"type": "http.request", "body": b"", "more_body": False}
        return await self._receive()

    async def discard(self) -> None:
        """Take what the client still sends, for a little while."""
        if not self._too_late and not _waits_to_send(self._headers):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LINGER_SECONDS):
                    await _discard(self._receive)


def streamed_body(request: Request) -> StreamedBody:
    """The body of a request that is not read yet (`POST /in/…`)."""
    body: StreamedBody = request.scope[_STREAMED]
    return body


async def _refuse(
    problem: Problem,
    scope: Scope,
    receive: Receive,
    send: Send,
    *,
    lingers: bool = True,
) -> None:
    """Answer with the problem and close the connection, but not while the client still sends: the
    reset that follows would destroy the answer before a client that reads late has seen it."""
    response = problem.response(scope)
    response.headers["Connection"] = "close"

    async def keep_open(message: Message) -> None:
        if message["type"] == "http.response.body":
            message = {**message, "more_body": True}
        await send(message)

    await response(scope, receive, keep_open)
    if lingers and not _waits_to_send(scope["headers"]):
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
    """Content-Length, or 0 where there is none."""
    for name, value in headers:
        if name == b"content-length":
            if not value.isdigit() or len(value) > 18:
                raise InvalidInput.at("Content-Length", "Content-Length is not a length in bytes")
            return int(value)
    return 0


def _too_large(cap: int) -> TooLarge:
    return TooLarge(f"The body is larger than {cap} bytes, which is the most this path takes.")

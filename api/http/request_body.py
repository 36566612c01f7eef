"""Reads each request's body, within bounds, before the application runs.

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
from functools import partial

from starlette.requests import Request
from starlette.types import Message, Send

from api.access.authentication import check_key
from api.access.body_owners import owners_of, stranger_owners, tenant_owners
from api.answers.problems import BodyTimeout, Problem, UnsupportedMediaType
from api.context.context import Context
from api.http.arriving_body import ArrivingBody, declared_length, too_large
from api.http.exchange import Exchange, exchange_of
from api.limits.parsed_size import parsed_size
from api.stream.connection import connection_of
from hookfast.byte_budget import SMALL_BYTES
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


async def read_body(exchange: Exchange) -> bool:
    """Read the whole body of a request, and return whether its client stayed until then. Raises
    TooLarge, BodyTimeout over `max_body_seconds`, UnsupportedMediaType if it is compressed, NoRoom
    if all bodies together need too much memory, and, for a long body to the API without a valid
    key, Unauthenticated or TooManyRequests."""
    scope = exchange.scope
    settings: Settings = scope["app"].state.settings
    is_batch = scope["method"] == "POST" and scope["path"] == BATCH_PATH
    cap = settings.max_batch_bytes if is_batch else settings.max_event_bytes
    fields = dict(scope["headers"])
    length = declared_length(fields)
    if length > cap:
        raise too_large(cap)
    is_wanted = scope["method"] not in _WITHOUT_BODIES
    if is_wanted and b"content-encoding" in fields:
        _check_coding(scope["headers"])
    may_be_long = is_batch or length > SMALL_BYTES or b"transfer-encoding" in fields
    if not may_be_long and connection_of(scope).has_whole_body():
        # no time to limit, and nothing to count: saves 3 % of the CPU time of an event
        body: bytes | None = (await exchange.receive()).get("body")
    else:
        owners = partial(stranger_owners, scope)
        if may_be_long and scope["path"].startswith(API_PREFIX):
            # only authenticated callers may use that much memory
            owners = partial(tenant_owners, (await check_key(Request(scope))).tenant_id)
        body = await ArrivingBody(exchange, cap=cap, owners=owners).read()
    if body is None:
        return False
    if is_wanted:
        exchange.body = body
    else:
        exchange.memory.close()
    exchange.is_passed_on = False
    return True


async def body_to_parse(request: Request) -> bytes:
    """Return the request's body, with memory reserved for its parsed values until the response is
    sent. Call it once per request. Raises Unavailable (`overloaded`)."""
    exchange = exchange_of(request)
    if exchange.body:
        await _reserve_parsed(exchange, exchange.body)
    return exchange.body


async def _reserve_parsed(exchange: Exchange, body: bytes) -> None:
    """Reserve memory for the body's parsed values until the response is sent. They take many times
    its size if they are small. A body that needs more than half of the budget is counted as half,
    so that it can run, and smaller bodies beside it. Raises NoRoom."""
    size = parsed_size(body)
    if size <= SMALL_BYTES:  # as of bodies themselves
        return
    context: Context = exchange.scope["app"].state.context
    budget = context.parsed_bodies
    claim = exchange.memory.enter_context(budget.claim("parsed body", *owners_of(exchange.scope)))
    await claim.grow(min(size, budget.largest))


_STREAMED = "hookfast.streamed_body"


class StreamedBody:
    """A body that has not been read yet. A response that is sent before the body was read closes
    the connection, but not while the client is still sending: see `reject`."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self.complete = False
        self._too_late = False
        exchange.scope[_STREAMED] = self

    async def read(self) -> bytes:
        """Return the whole body. Its memory stays reserved until the response is sent. Raises
        TooLarge, at once if the length is declared; BodyTimeout, also if the client disconnected;
        NoRoom."""
        scope = self._exchange.scope
        settings: Settings = scope["app"].state.settings
        cap = settings.max_inbox_bytes
        if declared_length(dict(scope["headers"])) > cap:
            raise too_large(cap)
        arriving = ArrivingBody(self._exchange, cap=cap, owners=partial(stranger_owners, scope))
        try:
            body = await arriving.read()
        except BodyTimeout:
            self._too_late = True
            raise
        self.complete = True
        if body is None:
            raise BodyTimeout("The client disconnected before the body was complete.")
        await _reserve_parsed(self._exchange, body)
        return body

    async def receive(self) -> Message:
        """Return an empty body, and later the client's disconnection: ASGI `receive` for the
        application."""
        if not self.complete:
            return {"type": "http.request", "body": b"", "more_body": False}
        return await self._exchange.receive()

    async def send(self, message: Message) -> None:
        """Send a message of the application: ASGI `send`."""
        send = self._exchange.send
        if not self.complete and message["type"] == "http.response.start":
            headers = [*message.get("headers", ()), (b"connection", b"close")]
            message = {**message, "headers": headers}
        is_last = message["type"] == "http.response.body" and not message.get("more_body")
        if self.complete or not is_last:
            await send(message)
        else:
            await _send_last(message, send, None if self._too_late else self._exchange)


def streamed_body(request: Request) -> StreamedBody:
    """Return the unread body of a request to `POST /in/…`."""
    body: StreamedBody = request.scope[_STREAMED]
    return body


async def reject(problem: Problem, exchange: Exchange, *, lingers: bool = True) -> None:
    """Respond with the problem and close the connection, but not while the client is still sending:
    the reset that would follow destroys the response before a slow client has read it."""
    response = problem.response(exchange.scope)
    response.headers["Connection"] = "close"

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            await exchange.send(message)
        else:
            await _send_last(message, exchange.send, exchange if lingers else None)

    await response(exchange.scope, exchange.receive, send)


async def _send_last(message: Message, send: Send, unread: Exchange | None) -> None:
    """Send the last part of a response, and end the response once the rest of the body of `unread`
    was dropped."""
    await send({**message, "more_body": True})
    if unread is not None:
        await _discard(unread)
    await send({"type": "http.response.body", "body": b""})


async def _discard(exchange: Exchange) -> None:
    """Read and drop the rest of the body, at most two seconds and 32 MiB of it, unless the client
    waits for permission to send it (`Expect: 100-continue`)."""
    if any(name == b"expect" for name, _ in exchange.scope["headers"]):
        return
    left = _LINGER_BYTES
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            while left > 0 and (message := await exchange.receive()).get("more_body", False):
                left -= len(message["body"])


def _check_coding(headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Raise UnsupportedMediaType for a compressed body (RFC 9110, section 15.5.16)."""
    for name, value in headers:
        if name == b"content-encoding" and value.lower() not in (b"", b"identity"):
            raise UnsupportedMediaType(
                "Send the body as it is, without compression and `Content-Encoding`.",
                code="unsupported_content_encoding",
            )

"""Middleware that counts the bodies of answers in the budget for bodies until their clients have
taken them.

The server buffers what a client does not read, so that an answer would stay in memory for as long
as its client likes. Here a long body goes to the server in slices, each when most of the one before
it has left, and is counted until its last slice has gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TypeVar

import structlog
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.access.body_owners import owners_of
from api.answers.problems import problem_of
from api.context.context import Context
from api.stream.connection import connection_of
from hookfast import byte_budget
from hookfast.byte_budget import SMALL_BYTES, Claim, NoRoom
from hookfast.errors import HookfastError

_SLICE_BYTES = 16_384
_PART_BYTES = 262_144  # of a stored body, in one statement

T = TypeVar("T")

log = structlog.get_logger()


class ResponseBody:
    """ASGI middleware that answers 503 if there is no room for a long answer. It closes the
    connection if there is none for its next part, or for the answer to a request that may have
    changed something: a 503 would say that it did not. It belongs inside of `RequestId`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with ExitStack() as memory:
            leaving = LeavingBody(scope, receive, send, memory)
            scope[_LEAVING] = leaving
            await self._app(scope, receive, leaving.send)


_LEAVING = "hookfast.leaving_body"


class LeavingBody:
    """The body of an answer on its way to the client."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, memory: ExitStack) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._memory = memory
        self._claim: Claim | None = None
        self._start: Message | None = None
        self._refused = False
        self._covered = False

    def cover(self, claim: Claim | None) -> None:
        """Have this claim, which its caller manages, hold what is sent from now on; None: nothing
        needs to be held."""
        self._claim, self._covered = claim, True

    async def reserve(self, size: int) -> None:
        """Wait for room for the next `size` bytes, before they are loaded. Raises NoRoom."""
        await self._counted(size).grow(size)

    async def without_client(self, work: Awaitable[T]) -> T:
        """Return the result of work during which the client is not what its body waits for."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            return await work
        finally:
            if self._claim is not None:
                self._claim.paused(loop.time() - began)

    async def send(self, message: Message) -> None:
        """Send a message of the application: ASGI `send`."""
        if self._refused:
            return
        if message["type"] == "http.response.start":
            if _length(message) > SMALL_BYTES:
                self._start = message  # until there is room for the body
            else:
                await self._send(message)
            return
        body = message.get("body", b"")
        if len(body) <= SMALL_BYTES:
            await self._send_start()
            await self._send(message)
            return
        if self._covered:
            await self._send_start()
            await self._send_slices(self._claim, memoryview(body), message)
            return
        claim = self._counted(len(body))
        try:
            if claim.size < len(body):
                await claim.grow(
                    len(body) - claim.size, within=byte_budget.SHORT_WAIT_SECONDS, loaded=True
                )
        except NoRoom as error:
            await self._refuse(error)
            return
        await self._send_start()
        try:
            await self._send_slices(claim, memoryview(body), message)
        finally:
            claim.shrink(claim.size)

    async def _send_slices(self, claim: Claim | None, body: memoryview, message: Message) -> None:
        more = message.get("more_body", False)
        for at in range(0, len(body), _SLICE_BYTES):
            part = body[at : at + _SLICE_BYTES]
            is_last = at + _SLICE_BYTES >= len(body)
            await self._send({**message, "body": part, "more_body": more or not is_last})
            if claim is not None:
                claim.move(len(part))

    async def _send_start(self) -> None:
        if self._start is not None:
            start, self._start = self._start, None
            await self._send(start)

    def _counted(self, size: int) -> Claim:
        if self._claim is None:
            context: Context = self._scope["app"].state.context
            abort = connection_of(self._scope).abort
            self._claim = self._memory.enter_context(
                context.bodies.claim(
                    "response body", *owners_of(self._scope), expected=size, on_drop=abort
                )
            )
        return self._claim

    async def _refuse(self, error: NoRoom) -> None:
        self._refused = True
        if self._start is None or self._scope["method"] not in ("GET", "HEAD"):
            log.warning("An answer was cut.", code=error.code)
            connection_of(self._scope).abort()
            return
        self._start = None
        await problem_of(error).response(self._scope)(self._scope, self._receive, self._send)


class SharedBody(Response):
    """An answer whose bytes are in memory once for all clients, so that none is counted."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        leaving: LeavingBody = scope[_LEAVING]
        leaving.cover(None)
        await super().__call__(scope, receive, send)


@contextmanager
def covering_claim(scope: Scope, what: str) -> Iterator[Claim]:
    """Yield a claim for a streamed answer, which holds what waits for its client, what is being
    sent included. The connection is closed if the client is slow and others need the memory."""
    context: Context = scope["app"].state.context
    abort = connection_of(scope).abort
    with context.bodies.claim(what, *owners_of(scope), on_drop=abort) as claim:
        leaving: LeavingBody = scope[_LEAVING]
        leaving.cover(claim)
        yield claim


class StoredBody(Response):
    """An answer with a body of `size` bytes in the database, of which `part` loads the bytes from
    one position, so many. Each part is loaded when there is room for it, and its connection to the
    database is free again while a slow client reads."""

    def __init__(
        self,
        part: Callable[[int, int], Awaitable[bytes]],
        *,
        size: int,
        headers: Mapping[str, str],
    ) -> None:
        super().__init__(headers={**headers, "Content-Length": str(size)})
        self._part = part
        self._size = size

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        leaving: LeavingBody = scope[_LEAVING]
        sent = 0
        try:
            while True:
                size = min(_PART_BYTES, self._size - sent)
                if size > SMALL_BYTES:
                    await leaving.reserve(size)
                part = await leaving.without_client(self._part(sent, size))
                if sent == 0:
                    await send(
                        {
                            "type": "http.response.start",
                            "status": self.status_code,
                            "headers": self.raw_headers,
                        }
                    )
                sent += size
                more = sent < self._size
                await send({"type": "http.response.body", "body": part, "more_body": more})
                if not more:
                    return
        except HookfastError as error:
            if sent == 0:
                raise
            # The client notices by the length, which is too small.
            log.warning("An answer was cut.", bytes_moved=sent, code=error.code)
            connection_of(scope).abort()


def _length(start: Message) -> int:
    """Return the body's length; 0 if it is not known before it ends."""
    for name, value in start.get("headers", ()):
        if name == b"content-length":
            return int(value)
    return 0

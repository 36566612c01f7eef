"""Answers whose bodies are not counted like others in the budget for bodies (`api.http.exchange`):
shared ones, streams, and those that are loaded in parts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager

import structlog
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from api.access.body_owners import owners_of
from api.context.context import Context
from api.http.exchange import exchange_of
from api.stream.connection import connection_of
from hookfast.byte_budget import SMALL_BYTES, Claim
from hookfast.errors import HookfastError

_PART_BYTES = 262_144  # of a stored body, in one statement

log = structlog.get_logger()


class SharedBody(Response):
    """An answer whose bytes are in memory once for all clients, so that none is counted."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange_of(scope).cover(None)
        await super().__call__(scope, receive, send)


@contextmanager
def covering_claim(scope: Scope, what: str) -> Iterator[Claim]:
    """Yield a claim for a streamed answer, which holds what waits for its client, what is being
    sent included. The connection is closed if the client is slow and others need the memory."""
    context: Context = scope["app"].state.context
    abort = connection_of(scope).abort
    with context.bodies.claim(what, *owners_of(scope), on_drop=abort) as claim:
        exchange_of(scope).cover(claim)
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
        exchange = exchange_of(scope)
        sent = 0
        try:
            while True:
                size = min(_PART_BYTES, self._size - sent)
                if size > SMALL_BYTES:
                    await exchange.reserve(size)
                part = await exchange.without_client(self._part(sent, size))
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

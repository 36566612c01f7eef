"""The HTTP protocol of our servers: uvicorn's on httptools, with limits on what one connection may
send. uvicorn itself reads heads of any size, and any number of requests in advance, and waits for
heads and for the reading of answers for ever.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Final

import httptools
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from hookfast.connections import answers
from hookfast.connections.closings import Reason
from hookfast.connections.connection import Connection, Phase
from hookfast.connections.connections import Connections
from hookfast.connections.counted_transport import CountedTransport

FIELD_BYTES: Final = 160
"""What a header field takes in memory beside its characters: a pair of two `bytes`, and its place
in the list. Without it, 64 KiB of the shortest fields would take 1.5 MiB."""

_CLOSED: Final = (Phase.REFUSED, Phase.ENDED)


class BoundedHttp(HttpToolsProtocol):
    """Closes a connection whose request line, header fields, chunk extensions or trailers exceed
    `max_head_bytes` (with 431 if a response is possible), or that sends more than
    `max_requests_ahead` requests, or `max_ahead_bytes` of them, before the first of them is
    answered. `Connections` closes those that are too many or too slow."""

    # Proxies in front allow 8 to 32 KiB. Each field counts `FIELD_BYTES` more than its length.
    max_head_bytes = 65_536
    # Each takes some 5 kB, and one read may have 14,000. RFC 9112, section 9.3.2: a client repeats
    # the requests that were not answered when its connection was closed.
    max_requests_ahead = 8
    # Heads and bodies, of which one read has up to 256 KiB.
    max_ahead_bytes = 32_768
    # Of an answer that its client does not read, so much stays with each connection. The API counts
    # the rest (`hookfast.byte_budget`).
    most_unsent_bytes = 16_384

    def __init__(self, *args: Any, connections: Connections, **options: Any) -> None:
        super().__init__(*args, **options)
        self._parts: list[bytes] = []
        self._connections = connections
        self._bytes_without_progress = 0
        self._made_progress = False
        self._in_message = self._in_head = False
        self._head_bytes = 0
        self._ahead: deque[int] = deque()  # the bytes of each request in the pipeline
        self.running: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        counted = CountedTransport(transport)
        transport.set_write_buffer_limits(high=self.most_unsent_bytes)
        super().connection_made(counted)  # type: ignore[arg-type] # all that uvicorn uses of one
        peer = None if self.client is None else self.client[0]
        self._connection: Connection = self._connections.enter(counted, peer)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.leave(self._connection)
        if self.running is not None and not self.running.response_complete:
            # uvicorn tells only the newest request, and others may be waiting behind this one
            self.running.disconnected = True
            self.running.message_event.set()
        self.pipeline.clear()
        self._ahead.clear()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._connection.phase in _CLOSED:
            self.transport.close()
            return
        self._made_progress = False
        try:
            self.parser.feed_data(data)
            self._pass_on_body()
        except httptools.HttpParserUpgrade:
            pass  # RFC 9110, section 7.8: a server may ignore Upgrade
        except (httptools.HttpParserError, _Stop):
            self._parts.clear()
            self._reject(Reason.INVALID, answers.INVALID)
        if self.transport.is_closing():
            return
        if self._is_waiting():
            self._expect_more()
        if self._made_progress:
            self._bytes_without_progress = 0
            return
        self._bytes_without_progress += len(data)
        if self._bytes_without_progress > self.max_head_bytes:
            self._reject(Reason.LARGE_HEAD, answers.LARGE_HEAD)

    def on_message_begin(self) -> None:
        self._in_message = self._in_head = True
        self._head_bytes = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        # targets have no fragment (RFC 9112, section 3.2); uvicorn drops it, and a proxy may not
        if b"#" in url:
            raise ValueError("the request target has a fragment")
        self._count_head(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        # trailers are no header fields (RFC 9110, section 6.5.1): uvicorn would add an
        # `Authorization` that no proxy has seen to the head of the request
        if self._in_head:
            self._count_head(len(name) + len(value) + FIELD_BYTES)
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._made_progress = True
        self._in_head = False
        super().on_headers_complete()
        self._connection.answer()
        if self.pipeline:
            self._ahead.append(0)
            self._count_ahead(self._head_bytes)

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)

    def _pass_on_body(self) -> None:
        """Pass on what was read of a body, at once: one read may have 40,000 chunks, and with all
        of the work for each, 400 such connections stopped all others for 4 s."""
        if not self._parts:
            return
        body = b"".join(self._parts)
        self._parts.clear()
        self._made_progress = True
        if self._ahead:
            self._count_ahead(len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._pass_on_body()
        self._in_message = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Do what uvicorn does, without its timer for idle connections: `Connections` has one for
        all of them."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._ahead.popleft()
            self._start_asgi_task(*self.pipeline.pop())
        elif self._in_message:
            self._connection.start()
        else:
            self._connection.answered()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self.running = cycle
        super()._start_asgi_task(cycle, app)

    def _is_waiting(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _expect_more(self) -> None:
        """A part of a request was received, or the rest of one that has its answer already, or
        empty lines."""
        self._connection.heard = True
        starting = self._connection.phase is Phase.STARTING
        if self._in_message and not starting:
            self._connection.start()
        elif not self._in_message and starting and self.cycle is not None:
            self._connection.answered()

    def _count_head(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > self.max_head_bytes:
            self._reject(Reason.LARGE_HEAD, answers.LARGE_HEAD)
            raise _Stop

    def _count_ahead(self, size: int) -> None:
        """Count bytes of the newest request, which waits for others before it."""
        self._ahead[-1] += size
        if len(self._ahead) > self.max_requests_ahead or sum(self._ahead) > self.max_ahead_bytes:
            self._connections.drop(self._connection, Reason.TOO_MANY_AHEAD)
            raise _Stop

    def _reject(self, reason: Reason, answer: bytes) -> None:
        if self.transport.is_closing():
            return
        # while a request is being handled, its response may be half written, so that no other
        # response is possible
        self._connections.reject(self._connection, reason, answer if self._is_waiting() else None)


class _Stop(Exception):
    """Stops the parser: the connection is closed."""

"""The API's HTTP protocol: uvicorn's on httptools, with limits on a request's head. uvicorn itself
reads header fields of any size, and waits for them for ever.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from api.stream.connection import EXTENSION, ConnectionHandle

_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-type: application/problem+json\r\ncontent-length: %d\r\nconnection: close\r\n"
    b"cache-control: no-store\r\nx-content-type-options: nosniff\r\n\r\n%s"
)
_PROBLEM = (
    b'{"type":"urn:hookfast:problem:headers_too_large","title":"Request Header Fields Too Large",'
    b'"status":431,"detail":"The request line and header fields are too large.",'
    b'"code":"headers_too_large"}'
)


class BoundedHttp(HttpToolsProtocol):
    """Closes a connection whose request line, header fields, chunk extensions or trailers exceed
    `max_head_bytes` (with 431 if a response is possible) or take longer than `max_head_seconds`."""

    # Proxies in front allow 8 to 32 KiB. A single read, at most 256 KiB, is not cut off: the limit
    # is on the bytes kept from one read to the next.
    max_head_bytes = 65_536
    max_head_seconds = 20.0

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._bytes_without_progress = 0
        self._made_progress = False
        self._in_head = True
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._connection = ConnectionHandle(transport.abort)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._connection.ending.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._made_progress = False
        super().data_received(data)
        if self.transport.is_closing():
            self._stop_timer()
            return
        if self._in_head:
            # most heads come in one read, and never get here, so that they cost no timer
            self._start_timer()
        else:
            self._stop_timer()
        if self._made_progress:
            self._bytes_without_progress = 0
            return
        self._bytes_without_progress += len(data)
        if self._bytes_without_progress > self.max_head_bytes:
            self._reject()

    def on_message_begin(self) -> None:
        self._made_progress = self._in_head = True
        super().on_message_begin()
        self.scope["extensions"] = {EXTENSION: self._connection}  # type: ignore[dict-item] # ours

    def on_url(self, url: bytes) -> None:
        # targets have no fragment (RFC 9112, section 3.2); uvicorn drops it, and a proxy may not
        if b"#" in url:
            raise ValueError("the request target has a fragment")
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        # trailers are no header fields (RFC 9110, section 6.5.1): uvicorn would add an
        # `Authorization` that no proxy has seen to the head of the request
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._made_progress = True
        self._in_head = False
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._made_progress = True
        super().on_body(body)

    def shutdown(self) -> None:
        self._connection.ending.set()
        super().shutdown()

    def _reject(self) -> None:
        # while a request is being handled, its response may be half written, so that no other
        # response is possible
        if self.cycle is None or self.cycle.response_complete:
            self.transport.write(_TOO_LARGE % (len(_PROBLEM), _PROBLEM))
        self._stop_timer()
        self.transport.close()

    def _start_timer(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.max_head_seconds, self._too_late)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _too_late(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing():
            self.transport.close()

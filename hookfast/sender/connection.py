"""A connection as httpcore2 drives it: requests leave whole, answers are read within limits.

httpcore2 and h11 do the protocol. What they leave open is decided by what they are given to read:
how long an answer may be, how soon one that is not HTTP is known for it, and that no byte beyond an
answer is taken for the next one.
"""

from __future__ import annotations

import re
from typing import Any

import httpcore2
import httpx2

from hookfast.sender.failure import broken, not_http
from hookfast.sender.progress import Phase, current_progress
from hookfast.sender.stream import Stream

MAX_HEAD = 64 * 1024
"""Most bytes of interim (1xx) answers, status line and headers together."""
MAX_BODY = 64 * 1024
"""Most bytes of a body, its framing included, that are read; the rest is cut."""

_VERSION = b"HTTP/1."
# Where a head ends and, after its last chunk, a chunked body (as h11 sees it).
_BLANK_LINE = re.compile(rb"\n\r?\n")
# A chunked body that takes more reads, say one that is all blank lines, costs its connection, so
# that it does not cost us a tenth of a second.
_LINE_READS = 64


class BodyCut(Exception):
    """The body goes on after `MAX_BODY` bytes; no more of it is read."""


class Connection(httpcore2.AsyncNetworkStream):
    """One connection to `peer`, for one request at a time. Knows no deadline: the caller cancels.

    Whatever goes wrong raises RequestFailed, which httpcore2 passes on as it is, after closing.
    """

    def __init__(self, stream: Stream, peer: str) -> None:
        self._stream = stream
        self._peer = peer
        self._unsent: list[bytes] = []
        self._unfit = False

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Add to the request. It is sent at the first read, so that headers and body leave in one
        segment where they fit."""
        if not self._unsent:
            self._begin_exchange()
        self._unsent.append(buffer)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Some of the answer, never beyond its end; `b""` where the peer ends its body by closing.

        Raises RequestFailed, and BodyCut.
        """
        if self._unsent:
            if self._progress.confirm is not None:
                self._progress.phase = Phase.CONFIRMING
                await self._progress.confirm()
                self._progress.phase = Phase.WAITING
            self._stream.write(b"".join(self._unsent))
            self._unsent.clear()
        read = self._read_body if self._in_body else self._read_head
        data = await read(max_bytes)
        self._left -= len(data)
        return data

    def begin_body(self, headers: httpx2.Headers) -> None:
        """The head has been read; `headers`, which h11 has checked, tell how the body is framed
        (RFC 9112, section 6.3)."""
        self._progress.phase = Phase.BODY
        self._in_body = True
        self._left = MAX_BODY
        self._chunked = "transfer-encoding" in headers
        self._length = int(headers.get("content-length", MAX_BODY))

    async def aclose(self) -> None:
        """Close at once."""
        self._stream.close()

    def get_extra_info(self, info: str) -> Any:
        """`is_readable` tells httpcore2 that an idle connection cannot carry another request."""
        if info == "is_readable":
            return self._unfit or not self._stream.quiet
        return self._stream.transport_info(info)

    def _begin_exchange(self) -> None:
        self._progress = current_progress()
        self._progress.phase = Phase.WAITING
        self._in_body = False
        self._left = MAX_HEAD
        self._line_reads = _LINE_READS
        self._start = b""
        self._tail = b""

    async def _read_head(self, max_bytes: int) -> bytes:
        if not self._left:
            raise not_http(self._peer, f"has more than {MAX_HEAD // 1024} KiB of headers")
        if not await self._filled():
            raise broken(self._peer, self._progress.phase, None)
        self._progress.phase = Phase.HEADERS
        data = self._take_line(min(max_bytes, self._left))
        if len(self._start) < len(_VERSION):
            self._start = (self._start + data)[: len(_VERSION)]
            # Without this an SSH or SMTP banner would be waited on until the deadline.
            if not _VERSION.startswith(self._start):
                raise not_http(self._peer)
        return data

    async def _read_body(self, max_bytes: int) -> bytes:
        if not self._left:
            raise BodyCut
        if not await self._filled():
            self._progress.ended = True
            return b""
        limit = min(max_bytes, self._left)
        if not self._chunked:
            data = self._stream.take(min(limit, self._length))
            self._length -= len(data)
            return data
        if not self._line_reads:
            self._unfit = True
            return self._stream.take(limit)
        self._line_reads -= 1
        return self._take_line(limit)

    async def _filled(self) -> bool:
        try:
            return await self._stream.filled()
        except OSError as error:
            raise broken(self._peer, self._progress.phase, error) from error

    def _take_line(self, limit: int) -> bytes:
        """Up to `limit` bytes of what has come, not beyond a blank line.

        Bytes after an answer's end would stay with h11 and begin the next answer; in the stream
        they make the connection unfit for another request.
        """
        buffer = self._stream.buffer
        if line := _BLANK_LINE.search(self._tail + buffer[:2]):  # one that began before
            end = line.end() - len(self._tail)
        elif line := _BLANK_LINE.search(buffer, 0, limit):
            end = line.end()
        else:
            end = limit
        data = self._stream.take(min(end, limit))
        seen = (self._tail + data)[-3:]
        self._tail = b"" if seen.endswith((b"\n\n", b"\n\r\n")) else seen[-2:]
        return data

"""One HTTP/1.1 connection, which sends requests and reads responses within limits.

h11 implements the protocol, except for chunked bodies (`chunked`). This module controls which bytes
h11 gets, and so limits the length of a response, detects early that a peer does not speak HTTP, and
keeps bytes after a response from being read as the next one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import h11

from hookfast.sender.chunked import ChunkedBody, InvalidChunk
from hookfast.sender.failure import broken, not_http
from hookfast.sender.phase import RequestPhase
from hookfast.sender.progress import current_progress
from hookfast.sender.stream import Stream

MAX_HEAD = 64 * 1024
"""Most bytes of interim (1xx) responses, status line and headers together."""
MAX_BODY = 64 * 1024
"""Most bytes of a body that are read, including its framing; the rest is cut off."""

_VERSION = b"HTTP/1."
_BLANK_LINE = re.compile(rb"\n\r?\n")  # the end of a head, as h11 parses it
_NO_CHUNKS = b"0\r\n\r\n"
_END = h11.EndOfMessage()


@dataclass(frozen=True, slots=True)
class Answer:
    """A final response with its raw body; `cut` means that only the body's start was read."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    cut: bool


class Connection:
    """One connection to `peer`, for one request at a time. The caller cancels it at its deadline.

    It can send another request only after `exchange` returned and `prepare_reuse` returned True.
    """

    def __init__(self, stream: Stream, peer: str) -> None:
        self._stream = stream
        self._peer = peer
        # The limit is on a single event; h11's default of 16 KiB would reject large heads.
        self._protocol = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD * 2)

    async def exchange(self, request: h11.Request, body: bytes) -> Answer:
        """Send a request and read its response. Headers and body leave in one segment if they fit.
        Raises RequestFailed, any error of `confirm`, and h11.LocalProtocolError when the body's
        length is not the request's Content-Length."""
        progress = self._progress = current_progress()
        progress.phase, progress.ended, progress.head = RequestPhase.WAITING, False, b""
        head = self._protocol.send(request) or b""
        for event in (h11.Data(data=body), _END):
            self._protocol.send(event)  # which only checks the length
        if progress.confirm is not None:
            progress.phase = RequestPhase.CONFIRMING
            await progress.confirm()
            progress.phase = RequestPhase.WAITING
        progress.sent = request.headers.raw_items()
        self._stream.write(head, body)
        try:
            answer = await self._receive_head()
            received, cut = await self._receive_body(answer)
        except (h11.RemoteProtocolError, InvalidChunk) as error:
            # h11 reports a connection that the peer closed in the middle of a body as this, too
            closed = broken(self._peer, progress.phase, None) if progress.ended else None
            raise closed or not_http(self._peer) from error
        return Answer(answer.status_code, answer.headers.raw_items(), received, cut)

    def prepare_reuse(self) -> bool:
        """Prepare for another request, and return whether the connection can send one. Call it once
        after each exchange."""
        done = self._protocol.our_state is h11.DONE and self._protocol.their_state is h11.DONE
        if not done or self._stream.buffer or self._stream.sending:
            return False
        self._protocol.start_next_cycle()
        return True

    @property
    def usable(self) -> bool:
        """Whether an idle connection can send another request, as far as known."""
        return self._stream.idle

    def close(self) -> None:
        """Close immediately."""
        self._stream.close()

    async def _receive_head(self) -> h11.Response:
        self._remaining = MAX_HEAD
        while True:
            event = self._protocol.next_event()
            if isinstance(event, h11.Response):
                return event
            if event is h11.NEED_DATA:
                self._receive(await self._read_head())
            else:  # an interim response, and the final one follows
                self._progress.head = b""

    async def _receive_body(self, head: h11.Response) -> tuple[bytes, bool]:
        """Read the body, framed by its headers (RFC 9112, section 6.3). Return it, and whether it
        was cut."""
        self._progress.phase = RequestPhase.BODY
        self._remaining = MAX_BODY
        headers = dict(head.headers)  # names are in lower case; h11 has validated these two
        self._length = int(headers.get(b"content-length", MAX_BODY))
        body = bytearray()
        while True:
            event = self._protocol.next_event()
            if isinstance(event, h11.Data):
                body += event.data
            elif event is not h11.NEED_DATA:
                return bytes(body), False
            elif b"transfer-encoding" in headers:
                return await self._receive_chunked()
            elif not self._remaining:
                return bytes(body), True
            else:
                self._receive(await self._read_body())

    async def _receive_chunked(self) -> tuple[bytes, bool]:
        chunks = ChunkedBody()
        while self._remaining:
            if not await self._wait_for_data():
                raise broken(self._peer, RequestPhase.BODY, None)
            taken = chunks.feed(self._stream.buffer, limit=self._remaining)
            self._stream.take(taken)
            self._remaining -= taken
            if chunks.complete:
                self._protocol.receive_data(_NO_CHUNKS)  # so that h11 sees the end, too
                self._protocol.next_event()
                return bytes(chunks.content), False
        return bytes(chunks.content), True

    def _receive(self, data: bytes) -> None:
        self._remaining -= len(data)
        self._protocol.receive_data(data)

    async def _read_head(self) -> bytes:
        """Read a part of the head, never beyond its end."""
        if not self._remaining:
            raise not_http(self._peer, f"has more than {MAX_HEAD // 1024} KiB of headers")
        if not await self._wait_for_data():
            raise broken(self._peer, self._progress.phase, None)
        progress = self._progress
        progress.phase = RequestPhase.HEADERS
        data = self._take_head(progress.head)
        progress.head += data
        # Without this check, an SSH or SMTP banner would be read until the deadline.
        if not _VERSION.startswith(progress.head[: len(_VERSION)]):
            raise not_http(self._peer)
        return data

    async def _read_body(self) -> bytes:
        """Read a part of the body, never beyond its end; `b""` when the peer has closed."""
        if not await self._wait_for_data():
            self._progress.ended = True
            return b""
        data = self._stream.take(min(self._remaining, self._length))
        self._length -= len(data)
        return data

    async def _wait_for_data(self) -> bool:
        try:
            return await self._stream.wait_for_data()
        except OSError as error:
            raise broken(self._peer, self._progress.phase, error) from error

    def _take_head(self, seen: bytes) -> bytes:
        """Return received bytes, not beyond the blank line that ends the head of which `seen` has
        come before.

        h11 would read bytes after a response's end as the start of the next response. Left in the
        stream, they prevent the connection from being reused.
        """
        buffer = self._stream.buffer
        tail = seen[-2:]
        if line := _BLANK_LINE.search(tail + buffer[:2]):  # begun in earlier data
            end = line.end() - len(tail)
        elif line := _BLANK_LINE.search(buffer, 0, self._remaining):
            end = line.end()
        else:
            end = self._remaining
        return self._stream.take(min(end, self._remaining))

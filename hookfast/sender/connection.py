"""One HTTP/1.1 connection: requests leave whole, answers are read within limits.

h11 does the protocol. What it leaves open is decided by what it is given to read: how long an
answer may be, how soon one that is not HTTP is known for it, and that no byte beyond an answer is
taken for the next one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import h11

from hookfast.sender.failure import answer_refused, broken, not_http
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
_END = h11.EndOfMessage()


@dataclass(frozen=True, slots=True)
class Answer:
    """A final answer, its body as it came; `cut` tells that it was longer than what was read."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    cut: bool


class Connection:
    """One connection to `peer`, for one request at a time. Knows no deadline: the caller cancels.

    It can carry another request only where `exchange` has returned and `renew` says so.
    """

    def __init__(self, stream: Stream, peer: str) -> None:
        self._stream = stream
        self._peer = peer
        # The limit is on a single event; h11's own 16 KiB would refuse large heads.
        self._protocol = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD * 2)
        self._unfit = False

    async def exchange(self, request: h11.Request, body: bytes) -> Answer:
        """Send a request and read its answer. Headers and body leave in one segment where they
        fit. Raises RequestFailed, what `confirm` raises, and h11.LocalProtocolError for a body
        that is not as long as the request says."""
        progress = self._progress = current_progress()
        progress.phase = Phase.WAITING
        parts = [self._protocol.send(event) for event in (request, h11.Data(data=body), _END)]
        if progress.confirm is not None:
            progress.phase = Phase.CONFIRMING
            await progress.confirm()
            progress.phase = Phase.WAITING
        self._stream.write(b"".join(part for part in parts if part))
        try:
            head = await self._receive_head()
            received, cut = await self._receive_body(head)
        except h11.RemoteProtocolError as error:
            raise answer_refused(self._peer, progress) from error
        return Answer(head.status_code, head.headers.raw_items(), received, cut)

    def renew(self) -> bool:
        """Whether the exchange ended so that another may follow; to be called once, after it."""
        done = self._protocol.our_state is h11.DONE and self._protocol.their_state is h11.DONE
        if not done or self._unfit or self._stream.buffer:
            return False
        self._protocol.start_next_cycle()
        return True

    @property
    def quiet(self) -> bool:
        """Whether an idle connection can carry another request, as far as is known."""
        return self._stream.quiet

    def close(self) -> None:
        """Close at once."""
        self._stream.close()

    async def _receive_head(self) -> h11.Response:
        self._left = MAX_HEAD
        self._start = b""
        self._tail = b""
        while True:
            event = self._protocol.next_event()
            if isinstance(event, h11.Response):
                return event
            if event is h11.NEED_DATA:
                self._receive(await self._read_head())
            # else it is an interim answer, which the final one follows

    async def _receive_body(self, head: h11.Response) -> tuple[bytes, bool]:
        """The body, framed as `head` tells (RFC 9112, section 6.3), and whether it was cut."""
        self._progress.phase = Phase.BODY
        self._left = MAX_BODY
        self._line_reads = _LINE_READS
        headers = dict(head.headers)  # by names in lower case; h11 has checked these two
        self._chunked = b"transfer-encoding" in headers
        self._length = int(headers.get(b"content-length", MAX_BODY))
        body = bytearray()
        while True:
            event = self._protocol.next_event()
            if isinstance(event, h11.Data):
                body += event.data
            elif event is not h11.NEED_DATA:
                return bytes(body), False
            elif not self._left:
                return bytes(body), True
            else:
                self._receive(await self._read_body())

    def _receive(self, data: bytes) -> None:
        self._left -= len(data)
        self._protocol.receive_data(data)

    async def _read_head(self) -> bytes:
        """Some of the head, never beyond its end."""
        if not self._left:
            raise not_http(self._peer, f"has more than {MAX_HEAD // 1024} KiB of headers")
        if not await self._filled():
            raise broken(self._peer, self._progress.phase, None)
        self._progress.phase = Phase.HEADERS
        data = self._take_line(self._left)
        if len(self._start) < len(_VERSION):
            self._start = (self._start + data)[: len(_VERSION)]
            # Without this an SSH or SMTP banner would be waited on until the deadline.
            if not _VERSION.startswith(self._start):
                raise not_http(self._peer)
        return data

    async def _read_body(self) -> bytes:
        """Some of the body, never beyond its end; `b""` where the peer ends it by closing."""
        if not await self._filled():
            self._progress.ended = True
            return b""
        if not self._chunked:
            data = self._stream.take(min(self._left, self._length))
            self._length -= len(data)
            return data
        if not self._line_reads:
            self._unfit = True
            return self._stream.take(self._left)
        self._line_reads -= 1
        return self._take_line(self._left)

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

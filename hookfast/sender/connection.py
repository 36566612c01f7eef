"""One HTTP/1.1 connection, which sends requests and reads responses within limits.

It limits the length of a response, detects early that a peer does not speak HTTP, and leaves bytes
after a response in the stream, so that they are not read as the next one.
"""

from __future__ import annotations

from typing import NamedTuple

from hookfast.sender.chunked import ChunkedBody, InvalidChunk
from hookfast.sender.failure import broken, not_http
from hookfast.sender.http1 import (
    END_OF_HEAD,
    VERSION,
    Field,
    Head,
    InvalidResponse,
    parse_response,
)
from hookfast.sender.phase import RequestPhase
from hookfast.sender.progress import current_progress
from hookfast.sender.request import Message
from hookfast.sender.stream import Stream

MAX_HEAD = 64 * 1024
"""Most bytes of interim (1xx) responses, status line and headers together."""
MAX_BODY = 64 * 1024
"""Most bytes of a body that are read, including its framing; the rest is cut off."""


class Answer(NamedTuple):
    """A final response with its raw body; `cut` means that only the body's start was read."""

    status: int
    headers: list[Field]
    body: bytes
    cut: bool


class Connection:
    """One connection to `peer`, for one request at a time. The caller cancels it at its deadline.

    It can send another request only after `exchange` returned, and if it is `reusable` then.
    """

    def __init__(self, stream: Stream, peer: str) -> None:
        self._stream = stream
        self._peer = peer
        self._ended_cleanly = False

    async def exchange(self, message: Message) -> Answer:
        """Send a request and read its response. Head and body leave in one segment if they fit.
        Raises RequestFailed and any error of `confirm`."""
        progress = self._progress = current_progress()
        progress.phase, progress.head = RequestPhase.WAITING, b""
        if progress.confirm is not None:
            progress.phase = RequestPhase.CONFIRMING
            await progress.confirm()
            progress.phase = RequestPhase.WAITING
            if self._ended_cleanly and self._stream.buffer:
                # reused, and what came during `confirm` cannot be the answer to this request
                raise broken(self._peer, progress.phase, None)
        progress.sent = message.fields
        self._stream.write(message.head, message.body)
        try:
            answer = await self._receive_head()
            received, cut = await self._receive_body(answer)
        except (InvalidResponse, InvalidChunk) as error:
            raise not_http(self._peer) from error
        self._ended_cleanly = answer.persists and not cut
        return Answer(answer.status, answer.headers, received, cut)

    @property
    def reusable(self) -> bool:
        """Whether the connection can send another request after the last one."""
        return self._ended_cleanly and not self._stream.buffer and not self._stream.sending

    @property
    def usable(self) -> bool:
        """Whether an idle connection can send another request, as far as known."""
        return self._stream.idle

    def close(self) -> None:
        """Close immediately."""
        self._stream.close()

    async def _receive_head(self) -> Head:
        """Read the head of the final response, and never beyond it."""
        progress, buffer = self._progress, self._stream.buffer
        left, seen = MAX_HEAD, 0
        while True:
            if seen >= left:
                raise not_http(self._peer, f"has more than {MAX_HEAD // 1024} KiB of headers")
            if not await self._wait_for_data(beyond=seen):
                raise broken(self._peer, progress.phase, None)
            progress.phase, progress.head = RequestPhase.HEADERS, buffer
            # Without this check, an SSH or SMTP banner would be read until the deadline.
            if not VERSION.startswith(bytes(buffer[: len(VERSION)])):
                raise not_http(self._peer)
            end = END_OF_HEAD.search(buffer, max(0, seen - 2), left)
            if end is None:
                seen = len(buffer)
                continue
            data = progress.head = self._stream.take(end.end())
            head = parse_response(data)
            if head.status >= 200:
                return head
            progress.head = b""  # it was an interim response, and the final one follows
            left, seen = left - len(data), 0

    async def _receive_body(self, head: Head) -> tuple[bytes, bool]:
        """Read the body, framed by its headers (RFC 9112, section 6.3). Return it, and whether it
        was cut."""
        self._progress.phase = RequestPhase.BODY
        if head.chunked:
            return await self._receive_chunked()
        buffer = self._stream.buffer
        wanted = MAX_BODY if head.length is None else min(head.length, MAX_BODY)
        while len(buffer) < wanted:
            if not await self._wait_for_data(beyond=len(buffer)):
                if head.length is None:
                    return self._stream.take(wanted), False
                raise broken(self._peer, RequestPhase.BODY, None)
        return self._stream.take(wanted), head.length is None or head.length > wanted

    async def _receive_chunked(self) -> tuple[bytes, bool]:
        chunks, left = ChunkedBody(), MAX_BODY
        while left:
            if not await self._wait_for_data():
                raise broken(self._peer, RequestPhase.BODY, None)
            taken = chunks.feed(self._stream.buffer, limit=left)
            self._stream.take(taken)
            left -= taken
            if chunks.complete:
                return bytes(chunks.content), False
        return bytes(chunks.content), True

    async def _wait_for_data(self, *, beyond: int = 0) -> bool:
        try:
            return len(self._stream.buffer) > beyond or await self._stream.wait_for_data(beyond)
        except OSError as error:
            raise broken(self._peer, self._progress.phase, error) from error

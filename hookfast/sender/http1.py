"""HTTP/1.1 (RFC 9112) over one stream: a request out, an answer back, within fixed limits.

h11 does the protocol, and refuses what is ambiguous (conflicting lengths, broken framing). Bodies
are never decoded: a compressed answer is kept as it came, so there is nothing to explode.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import h11

from hookfast.sender.failure import Phase, Progress, broken, not_http
from hookfast.sender.stream import Stream
from hookfast.sender.url import Url

MAX_HEAD = 64 * 1024
"""Most bytes of interim (1xx) answers, status line and headers together."""
MAX_BODY = 64 * 1024
"""Most bytes of a body, its framing included, that are read; the rest is cut."""

_READ = 16 * 1024
_VERSION = b"HTTP/1."
_OWNED = frozenset({"host", "content-length", "transfer-encoding", "connection", "accept-encoding"})


@dataclass(frozen=True, slots=True)
class Answer:
    """A final answer. `headers` has lower-case names, repeated ones joined by a comma (RFC 9110,
    section 5.3); `cut` tells that the body was longer than what was read."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    cut: bool


class Connection:
    """A connection to one origin, for one request at a time."""

    def __init__(self, stream: Stream, peer: str) -> None:
        self.stream = stream
        self._peer = peer
        self._ended = False
        self._h11 = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD + _READ)

    async def exchange(
        self,
        method: str,
        url: Url,
        *,
        headers: Mapping[str, str],
        body: bytes,
        progress: Progress,
    ) -> Answer:
        """Send a request and read its answer. Raises RequestFailed; the connection is then spent.

        `Host`, lengths, framing and `Accept-Encoding` are set here, whatever `headers` says.
        """
        progress.phase = Phase.WAITING
        # One write, so that headers and body leave in one segment where they fit.
        self.stream.write(self._encode(method, url, headers=headers, body=body))
        response = await self._read_head(progress)
        progress.phase = Phase.BODY
        received, cut = await self._read_body()
        return Answer(response.status_code, _joined(response.headers), received, cut)

    @property
    def reusable(self) -> bool:
        """Whether the exchange ended cleanly and the peer did not ask to close."""
        # Bytes beyond the answer belong to no request of ours: whose answer would they be next?
        return (
            self._h11.our_state is h11.DONE
            and self._h11.their_state is h11.DONE
            and not self._h11.trailing_data[0]
            and self.stream.quiet
        )

    def start_next(self) -> None:
        """Be ready for another exchange; only when `reusable`."""
        self._h11.start_next_cycle()

    def _encode(self, method: str, url: Url, *, headers: Mapping[str, str], body: bytes) -> bytes:
        lines = [("Host", url.authority), ("Accept-Encoding", "identity")]
        lines += [(name, value) for name, value in headers.items() if name.lower() not in _OWNED]
        if method == "POST":
            lines.append(("Content-Length", str(len(body))))
        request = h11.Request(method=method, target=url.target, headers=lines)
        events: list[h11.Event] = [request]
        if body:
            events.append(h11.Data(data=body))
        events.append(h11.EndOfMessage())
        return b"".join(self._h11.send(event) or b"" for event in events)

    async def _read_head(self, progress: Progress) -> h11.Response:
        received = 0
        start = b""
        while True:
            event = self._next_event(progress.phase)
            if isinstance(event, h11.Response):
                return event
            if isinstance(event, h11.InformationalResponse):
                continue
            if received > MAX_HEAD:
                raise not_http(self._peer, f"has more than {MAX_HEAD // 1024} KiB of headers")
            data = await self._read_some(progress.phase)
            if not data:
                raise broken(self._peer, progress.phase, None)
            progress.phase = Phase.HEADERS
            received += len(data)
            start = (start + data)[: len(_VERSION)]
            # Without this an SSH or SMTP banner would be waited on until the deadline.
            if not _VERSION.startswith(start):
                raise not_http(self._peer)

    async def _read_body(self) -> tuple[bytes, bool]:
        body = bytearray()
        framed = 0
        while True:
            event = self._next_event(Phase.BODY)
            if isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                return bytes(body[:MAX_BODY]), len(body) > MAX_BODY
            elif framed >= MAX_BODY:
                return bytes(body[:MAX_BODY]), True
            else:
                framed += len(await self._read_some(Phase.BODY))

    def _next_event(self, phase: Phase) -> object:
        try:
            return self._h11.next_event()
        except h11.RemoteProtocolError as error:
            # h11 words the end of a stream in mid-body as a protocol error too.
            raise (
                broken(self._peer, phase, None) if self._ended else not_http(self._peer)
            ) from error

    async def _read_some(self, phase: Phase) -> bytes:
        """Feed h11 with what comes next; `b""` at the end of the stream."""
        try:
            data = await self.stream.read(_READ)
        except OSError as error:
            raise broken(self._peer, phase, error) from error
        self._ended = not data
        self._h11.receive_data(data)
        return data


def _joined(headers: Iterable[tuple[bytes, bytes]]) -> Mapping[str, str]:
    joined: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined

"""The receiver of the benchmarks, as cheap as possible in Python.

It answers every request with an empty 200 and records its arrival. `python -m bench.sink` prints
its port. Requests to paths that begin with `/hole` are never answered; to `/fail/<n>`, the first n
attempts of a delivery get a 503 and are not recorded. Answers are JSON:

    GET /reset            forgets all arrivals
    GET /count            the number of arrivals
    GET /report           the latencies in ms: the time since `"sent_at":<monotonic ns>` in the body
    GET /report/<path>    the latencies of requests to this path
    GET /paths            all latencies by path
    GET /arrivals         the times of arrival in monotonic nanoseconds
    GET /duplicates       how many requests had an `X-Hook-Id` that came before
    GET /break, /repair   from now on answers 503 and records nothing; ends that
    GET /swallowed        the number of requests to `/hole`
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import defaultdict
from typing import Any

import uvloop

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_SENT_AT = re.compile(rb'"sent_at": ?(\d+)')
_ID = re.compile(rb"x-hook-id: *(\S+)", re.IGNORECASE)
_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
_ATTEMPT = re.compile(rb"x-hook-attempt: *(\d+)", re.IGNORECASE)
_HOLE = b"/hole"
_FAIL = b"/fail/"
_BROKEN = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"

_latencies: list[float] = []
_by_path: defaultdict[bytes, list[float]] = defaultdict(list)
_arrivals: list[int] = []
_seen: set[bytes] = set()


class Sink(asyncio.Protocol):
    """One connection."""

    broken = False  # of all of them
    duplicates = 0
    swallowed = 0

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._buffer = b""

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end]
            found = _LENGTH.search(head)
            length = int(found[1]) if found else 0
            if len(self._buffer) < end + 4 + length:
                return
            body = self._buffer[end + 4 : end + 4 + length]
            self._buffer = self._buffer[end + 4 + length :]
            self._answer(head, body)

    def _answer(self, head: bytes, body: bytes) -> None:
        if head.startswith(b"POST"):
            path = head.split(None, 2)[1]
            if path.startswith(_HOLE):
                Sink.swallowed += 1
                return
            if Sink.broken or _fails(path, head):
                self._transport.write(_BROKEN)
                return
            now = time.monotonic_ns()
            sent_at = _SENT_AT.search(body)
            latency = (now - int(sent_at[1])) / 1e6 if sent_at else 0.0
            _latencies.append(latency)
            _by_path[path].append(latency)
            _arrivals.append(now)
            if message := _ID.search(head):
                Sink.duplicates += message[1] in _seen
                _seen.add(message[1])
            self._transport.write(_OK)
            return
        report = json.dumps(self._asked(head.split()[1])).encode()
        self._transport.write(
            b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(report), report)
        )

    def _asked(self, path: bytes) -> Any:
        match path:
            case b"/reset":
                _latencies.clear()
                _by_path.clear()
                _arrivals.clear()
                _seen.clear()
                Sink.duplicates = Sink.swallowed = 0
            case b"/break" | b"/repair":
                Sink.broken = path == b"/break"
            case b"/report":
                return _latencies
            case b"/arrivals":
                return _arrivals
            case b"/paths":
                return {path.decode(): latencies for path, latencies in _by_path.items()}
            case b"/duplicates":
                return Sink.duplicates
            case b"/swallowed":
                return Sink.swallowed
            case _ if path.startswith(b"/report/"):
                return _by_path.get(path.removeprefix(b"/report"), [])
        return len(_latencies)


def _fails(path: bytes, head: bytes) -> bool:
    attempt = _ATTEMPT.search(head) if path.startswith(_FAIL) else None
    return attempt is not None and int(attempt[1]) <= int(path.removeprefix(_FAIL))


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(Sink, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve())

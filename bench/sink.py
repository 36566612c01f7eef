"""The receiver that both sides of the benchmark deliver to: as cheap as Python can make it.

It answers every request with an empty 200 and notes when each message came. `python -m bench.sink`
prints its port; `GET /reset` forgets, `GET /count` tells how many came and `GET /report` the
latencies in milliseconds, as JSON.
A latency is the time since `"sent_at":<monotonic ns>` in the body (one clock for the machine).
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from typing import Any

import uvloop

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_SENT_AT = re.compile(rb'"sent_at": ?(\d+)')
_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

_latencies: list[float] = []


class Sink(asyncio.Protocol):
    """One connection."""

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
            sent_at = _SENT_AT.search(body)
            taken = (time.monotonic_ns() - int(sent_at[1])) / 1e6 if sent_at else 0.0
            _latencies.append(taken)
            self._transport.write(_OK)
            return
        if head.startswith(b"GET /reset"):
            _latencies.clear()
        whole = head.startswith(b"GET /report")
        report = json.dumps(_latencies if whole else len(_latencies)).encode()
        self._transport.write(
            b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(report), report)
        )


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(Sink, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve())

"""Receivers that close connections, speak TLS or demand a client certificate.

`python -m bench.sinks FOLDER` prints the ports as JSON, by name. FOLDER has `server.pem`, a
certificate with its key, and `authority.pem`, which issues client certificates. All answer with an
empty 200, to the path `/once` with `Connection: close`, and to `/token` with an access token.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import sys
from pathlib import Path
from typing import Any

import uvloop

ANSWERS = 10
"""After how many answers `few` closes a connection."""
IDLE_SECONDS = 0.05
"""After which time `impatient` closes an idle connection."""

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_TOKEN = json.dumps({"access_token": "t" * 900, "token_type": "Bearer", "expires_in": 3600})


class _Sink(asyncio.Protocol):
    """One connection, which is closed without notice after `answers` or when it is idle."""

    def __init__(self, answers: int = sys.maxsize, idle_seconds: float | None = None) -> None:
        self._left = answers
        self._idle_seconds = idle_seconds
        self._idle: asyncio.TimerHandle | None = None
        self._received = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()

    def data_received(self, data: bytes) -> None:
        self._stop_timer()
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        if not found or len(body) < int(_LENGTH.findall(head)[0]):
            return
        self._received = b""
        path = head.split(None, 2)[1]
        answer = _TOKEN.encode() if path == b"/token" else b""
        close = b"Connection: close\r\n" if path == b"/once" else b""
        self._transport.write(
            b"HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n%s" % (close, len(answer), answer)
        )
        self._left -= 1
        if close or not self._left:
            self._transport.close()
        elif self._idle_seconds is not None:
            loop = asyncio.get_running_loop()
            self._idle = loop.call_later(self._idle_seconds, self._transport.close)

    def _stop_timer(self) -> None:
        if self._idle is not None:
            self._idle.cancel()


async def _serve(folder: Path) -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(folder / "server.pem")
    mutual = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=folder / "authority.pem")
    mutual.load_cert_chain(folder / "server.pem")
    mutual.verify_mode = ssl.CERT_REQUIRED
    loop = asyncio.get_running_loop()
    servers = {
        "plain": await loop.create_server(_Sink, "127.0.0.1", 0),
        "tls": await loop.create_server(_Sink, "127.0.0.1", 0, ssl=tls),
        "mutual": await loop.create_server(_Sink, "127.0.0.1", 0, ssl=mutual),
        "few": await loop.create_server(lambda: _Sink(answers=ANSWERS), "127.0.0.1", 0),
        "impatient": await loop.create_server(
            lambda: _Sink(idle_seconds=IDLE_SECONDS), "127.0.0.1", 0
        ),
    }
    ports = {name: server.sockets[0].getsockname()[1] for name, server in servers.items()}
    print(json.dumps(ports), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(_serve(Path(sys.argv[1])))

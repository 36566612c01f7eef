"""A webhook receiver that records every request and misbehaves on demand; the path says how.

    async with Receiver() as receiver:
        await sender.post(receiver.url("/status/503"), ...)
        assert receiver.requests[0].body == b"..."

| path                          | what it does
|-------------------------------|-----------------------------
| `/ok`, or anything not listed | 200, body `ok`
| `/status/<n>`                 | answers with that status, body `status <n>`
| `/slow/<seconds>`             | 200 (or `?status=`) after so long
| `/echo`                       | 200 with the request's body
| `/body/<bytes>`               | 200 with a body of that many `x`
| `/chunks/<n>`                 | 200 in n chunks of one byte
| `/raw/<percent-encoded>`      | 200 with exactly these bytes as its body
| `/retry-after/<value>`        | 503 (or `?status=`) with that `Retry-After`
| `/redirect`                   | 302 (or `?status=`) to `/ok` (or `?to=`)
| `/fail-first/<n>`             | 500 for the first n requests of each message id, then 200
| `/down-for/<n>`               | 500 for the first n requests, whatever their message ids, then 200
| `/flapping/<percent>`         | 500 for so many of a hundred requests, the same ones in every run
| `/challenge`                  | 200 with the request's `X-Hook-Challenge`
| `/fixed-challenge/<value>`    | 200 with this `X-Hook-Challenge`
| `/challenge-query`            | 200 with the query parameter `challenge` as the body
| `/cookie`                     | 200 with a `Set-Cookie`
| `/gzip-bomb`                  | 200, `Content-Encoding: gzip`, 50 MB of zeros in 50 kB
| `/redirect-loop`              | 302 to itself
| `/wire/<percent-encoded>`     | exactly these bytes, then silence (with `?close`: then the end)
| `/cut/<n>`                    | the first n bytes of an answer, then the end (`?reset`: a reset)
| `/drip-headers/<seconds>`     | one header byte per interval, for ever
| `/drip-body/<seconds>`        | headers, then one body byte per interval, for ever
| `/endless-body`               | a body without an end, as fast as it can
| `/declared-body/<bytes>`      | the same, with this `Content-Length`
| `/endless-chunks`             | chunks of one byte without an end
| `/endless-chunk-line`         | a chunk's size line that never ends
| `/endless-trailers`           | trailers after the last chunk, without an end
| `/endless-interim/<seconds>`  | `102 Processing` per interval, for ever
| `/huge-header`                | a header of 300 kB
| `/garbage`                    | an SSH banner
| `/conflicting-lengths`        | two different `Content-Length`
| `/upgrade`                    | 101 nobody asked for
| `/close`                      | closes without an answer
| `/close-mid-headers`, `/close-mid-body` | closes in the middle
| `/close-after`                | 200 with keep-alive, then closes
| `/extra`, `/extra-chunked`    | 200, and a second answer nobody asked for
| `/extra-no-content`           | 204, and a body all the same
| `/blank-lines`                | 200 with a chunk of 30,000 empty lines
| `/reset-early`                | reset when the headers have come, the body unread
| `/reset`, `/reset-mid-body`   | reset when the request has come; in the middle of the answer

`receiver.routes["/hook"] = "/status/500"` makes one path behave as another, and can change while
it runs. As a process: `python -m tests.receiver --port 0` prints its port as its first line.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gzip
import itertools
import random
import socket
import ssl
import struct
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from urllib.parse import parse_qs, unquote, unquote_to_bytes, urlsplit

from tests.waiting import PATIENCE

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

CUT_ANSWER = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
"""What `/cut` sends the beginning of."""

_MAX_HEAD = 128 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request as it came. `headers` has lower-case names, the last of a repeated one winning;
    `raw_headers` has them all. `at` is unix time in seconds, `connection` counts from 1."""

    method: str
    path: str
    headers: Mapping[str, str]
    raw_headers: tuple[tuple[str, str], ...]
    body: bytes
    at: float
    connection: int

    @property
    def message_id(self) -> str | None:
        return self.headers.get("x-hook-id") or self.headers.get("webhook-id")


class Receiver:
    """The server. Listens on 127.0.0.1, on a free port unless told otherwise. `under_way` requests
    are being answered now; there were never more at once than `most_under_way`. `serve` takes the
    place of all of it: it is given each connection as it opens, to do with as it likes."""

    def __init__(
        self,
        *,
        port: int = 0,
        ssl_context: ssl.SSLContext | None = None,
        host: str = "127.0.0.1",
        serve: Serve | None = None,
    ) -> None:
        self.requests: list[Request] = []
        self.routes: dict[str, str] = {}
        self.port = port
        self.connections = 0
        self.under_way = self.most_under_way = 0
        self._host = host
        self._ssl_context = ssl_context
        self._serve = serve or self._answer_requests
        self._failures: Counter[tuple[str, str | None]] = Counter()
        self._answered: Counter[str] = Counter()
        self._open: set[asyncio.Task[None]] = set()
        self._arrived = asyncio.Event()

    @property
    def open_connections(self) -> int:
        return len(self._open)

    def url(self, path: str = "/ok", *, host: str | None = None) -> str:
        """The URL of `path`; `host` for another name of this machine."""
        scheme = "http" if self._ssl_context is None else "https"
        return f"{scheme}://{host or self._host}:{self.port}{path}"

    def of_message(self, message_id: str) -> list[Request]:
        """The requests with this message id, in order."""
        return [request for request in self.requests if request.message_id == message_id]

    async def wait_for(self, count: int, *, timeout: float = PATIENCE) -> list[Request]:
        """Return when there have been `count` requests. Raises TimeoutError."""
        async with asyncio.timeout(timeout):
            while len(self.requests) < count:
                self._arrived.clear()
                await self._arrived.wait()
        return self.requests

    async def __aenter__(self) -> Receiver:
        self._server = await asyncio.start_server(
            self._connected, self._host, self.port, ssl=self._ssl_context, limit=_MAX_HEAD
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        await self._server.wait_closed()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        self.connections += 1
        try:
            # whatever the client does to the connection is its right
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await self._serve(reader, writer)
        except asyncio.CancelledError:
            pass  # only __aexit__ cancels; a cancelled handler would be logged as an error
        finally:
            self._open.discard(task)
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _answer_requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        connection = self.connections
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            request_line, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
            method, path, _ = request_line.split(" ")
            raw_headers = tuple(_header(line) for line in lines)
            headers = {name.lower(): value for name, value in raw_headers}
            behaviour = self.routes.get(urlsplit(path).path, path)
            early = urlsplit(behaviour).path == "/reset-early"
            length = 0 if early else int(headers.get("content-length", "0"))
            request = Request(
                method=method,
                path=path,
                headers=headers,
                raw_headers=raw_headers,
                body=await reader.readexactly(length),
                at=time.time(),
                connection=connection,
            )
            self.requests.append(request)
            self._arrived.set()
            self.under_way += 1
            self.most_under_way = max(self.most_under_way, self.under_way)
            try:
                await self._behave(behaviour, request, writer)
            finally:
                self.under_way -= 1
            await writer.drain()

    async def _behave(self, behaviour: str, request: Request, writer: asyncio.StreamWriter) -> None:
        split = urlsplit(behaviour)
        name, _, argument = split.path.removeprefix("/").partition("/")
        action = _BEHAVIOURS.get(name, _ok)
        await action(
            _Call(self, request, argument, parse_qs(split.query, keep_blank_values=True), writer)
        )

    def _fails(self, request: Request, times: int) -> bool:
        key = (request.path, request.message_id)
        self._failures[key] += 1
        return self._failures[key] <= times

    def _number(self, behaviour: str) -> int:
        self._answered[behaviour] += 1
        return self._answered[behaviour]


@dataclass(frozen=True, slots=True)
class _Call:
    receiver: Receiver
    request: Request
    argument: str
    query: Mapping[str, list[str]]
    writer: asyncio.StreamWriter

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.raw(_head(status, {"Content-Length": str(len(body)), **named}) + body)

    def raw(self, data: bytes) -> None:
        if self.writer.is_closing():
            raise ConnectionResetError  # uvloop's transports would raise a RuntimeError
        self.writer.write(data)

    async def drip(self, data: bytes, seconds: float) -> None:
        for byte in itertools.cycle(data):
            self.raw(bytes([byte]))
            await self.writer.drain()
            await asyncio.sleep(seconds)

    async def flood(self, data: bytes) -> None:
        piece = data * (65536 // len(data))
        while True:
            self.raw(piece)
            await self.writer.drain()

    def close(self) -> None:
        self.writer.close()
        raise ConnectionResetError  # ends the connection's loop

    def reset(self) -> None:
        connected = self.writer.get_extra_info("socket")
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()
        raise ConnectionResetError


def _header(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name, value.strip()


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    lines = [
        f"HTTP/1.1 {status} {phrase}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


async def _ok(call: _Call) -> None:
    call.answer(200, b"ok")


async def _status(call: _Call) -> None:
    status = int(call.argument)
    call.answer(status, b"" if status in (204, 304) else f"status {status}".encode())


async def _slow(call: _Call) -> None:
    await asyncio.sleep(float(call.argument))
    call.answer(int(call.query.get("status", ["200"])[0]), b"slow")


async def _echo(call: _Call) -> None:
    call.answer(200, call.request.body)


async def _body(call: _Call) -> None:
    call.answer(200, b"x" * int(call.argument))


async def _chunks(call: _Call) -> None:
    chunks = b"1\r\nx\r\n" * int(call.argument)
    call.raw(_head(200, {"Transfer-Encoding": "chunked"}) + chunks + b"0\r\n\r\n")


async def _raw(call: _Call) -> None:
    call.answer(200, unquote_to_bytes(call.argument))


async def _retry_after(call: _Call) -> None:
    status = int(call.query.get("status", ["503"])[0])
    call.answer(status, b"later", Retry_After=unquote(call.argument))


async def _redirect(call: _Call) -> None:
    status = int(call.query.get("status", ["302"])[0])
    call.answer(status, Location=call.query.get("to", [call.receiver.url("/ok")])[0])


async def _redirect_loop(call: _Call) -> None:
    call.answer(302, Location=call.request.path)


async def _wire(call: _Call) -> None:
    call.raw(unquote_to_bytes(call.argument))
    if "close" in call.query:
        call.close()
    await asyncio.Event().wait()


async def _cut(call: _Call) -> None:
    call.raw(CUT_ANSWER[: int(call.argument)])
    if "reset" in call.query:
        await asyncio.sleep(0.02)  # so that the bytes arrive: a reset discards what is unread
        call.reset()
    call.close()


async def _fail_first(call: _Call) -> None:
    fails = call.receiver._fails(call.request, int(call.argument))
    call.answer(500 if fails else 200, b"not yet" if fails else b"ok")


async def _down_for(call: _Call) -> None:
    down = call.receiver._number(f"down-for/{call.argument}") <= int(call.argument)
    call.answer(500 if down else 200, b"down" if down else b"ok")


async def _flapping(call: _Call) -> None:
    number = call.receiver._number(f"flapping/{call.argument}")
    fails = random.Random(f"request {number}").random() * 100 < float(call.argument)
    call.answer(500 if fails else 200, b"down" if fails else b"up")


async def _challenge(call: _Call) -> None:
    call.answer(200, X_Hook_Challenge=call.request.headers.get("x-hook-challenge", ""))


async def _fixed_challenge(call: _Call) -> None:
    call.answer(200, X_Hook_Challenge=call.argument)


async def _challenge_query(call: _Call) -> None:
    query = parse_qs(urlsplit(call.request.path).query)
    call.answer(200, query.get("challenge", [""])[0].encode())


async def _cookie(call: _Call) -> None:
    call.answer(200, b"ok", Set_Cookie="session=1")


async def _gzip_bomb(call: _Call) -> None:
    call.answer(200, _bomb(), Content_Encoding="gzip")


@cache
def _bomb() -> bytes:
    return gzip.compress(bytes(50_000_000), compresslevel=9)


async def _drip_headers(call: _Call) -> None:
    call.raw(b"HTTP/1.1 200 OK\r\nX-Drip: ")
    await call.drip(b"x", float(call.argument))


async def _drip_body(call: _Call) -> None:
    call.raw(_head(200, {"Content-Length": "1000000"}))
    await call.drip(b"x", float(call.argument))


async def _endless_body(call: _Call) -> None:
    call.raw(_head(200, {}))
    await call.flood(b"x")


async def _declared_body(call: _Call) -> None:
    call.raw(_head(200, {"Content-Length": call.argument}))
    await call.flood(b"x")


async def _endless_chunks(call: _Call) -> None:
    call.raw(_head(200, {"Transfer-Encoding": "chunked"}))
    await call.flood(b"1\r\nx\r\n")


async def _endless_chunk_line(call: _Call) -> None:
    call.raw(_head(200, {"Transfer-Encoding": "chunked"}) + b"1;x=")
    await call.flood(b"x")


async def _endless_trailers(call: _Call) -> None:
    call.raw(_head(200, {"Transfer-Encoding": "chunked"}) + b"0\r\n")
    await call.flood(b"X-Trailer: x\r\n")


async def _endless_interim(call: _Call) -> None:
    while True:
        call.raw(b"HTTP/1.1 102 Processing\r\n\r\n")
        await call.writer.drain()
        await asyncio.sleep(float(call.argument))


async def _huge_header(call: _Call) -> None:
    call.answer(200, X_Huge="x" * 300_000)


async def _garbage(call: _Call) -> None:
    call.raw(b"SSH-2.0-OpenSSH_9.9\r\n")


async def _conflicting_lengths(call: _Call) -> None:
    call.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!")


async def _upgrade(call: _Call) -> None:
    call.raw(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")


async def _close(call: _Call) -> None:
    call.close()


async def _close_mid_headers(call: _Call) -> None:
    call.raw(b"HTTP/1.1 200 OK\r\nContent-")
    call.close()


async def _close_mid_body(call: _Call) -> None:
    call.raw(_head(200, {"Content-Length": "100"}) + b"half")
    call.close()


async def _close_after(call: _Call) -> None:
    call.answer(200, b"ok")
    call.close()


async def _extra(call: _Call) -> None:
    call.answer(200, b"ok")
    call.answer(200, b"forged")


async def _extra_chunked(call: _Call) -> None:
    call.raw(
        _head(200, {"Transfer-Encoding": "chunked"})
        + b"4\r\no\n\nk\r\n0\r\nX-Trailer: x\r\n\r\n"
        + _head(200, {"Content-Length": "6"})
        + b"forged"
    )


async def _extra_no_content(call: _Call) -> None:
    call.answer(204, b"forged\n")


async def _blank_lines(call: _Call) -> None:
    call.raw(
        _head(200, {"Transfer-Encoding": "chunked"})
        + b"7530\r\n"
        + b"\n" * 30_000
        + b"\r\n0\r\n\r\n"
    )


async def _reset(call: _Call) -> None:
    call.reset()


async def _reset_mid_body(call: _Call) -> None:
    call.raw(_head(200, {"Content-Length": "100"}) + b"half")
    await asyncio.sleep(0.05)  # so that the half arrives: a reset discards what is unread
    call.reset()


_BEHAVIOURS: Mapping[str, Callable[[_Call], Awaitable[None]]] = {
    "blank-lines": _blank_lines,
    "body": _body,
    "challenge": _challenge,
    "challenge-query": _challenge_query,
    "chunks": _chunks,
    "close": _close,
    "close-after": _close_after,
    "close-mid-body": _close_mid_body,
    "close-mid-headers": _close_mid_headers,
    "conflicting-lengths": _conflicting_lengths,
    "cookie": _cookie,
    "cut": _cut,
    "declared-body": _declared_body,
    "down-for": _down_for,
    "drip-body": _drip_body,
    "drip-headers": _drip_headers,
    "echo": _echo,
    "endless-body": _endless_body,
    "endless-chunk-line": _endless_chunk_line,
    "endless-chunks": _endless_chunks,
    "endless-interim": _endless_interim,
    "endless-trailers": _endless_trailers,
    "extra": _extra,
    "extra-chunked": _extra_chunked,
    "extra-no-content": _extra_no_content,
    "fail-first": _fail_first,
    "fixed-challenge": _fixed_challenge,
    "flapping": _flapping,
    "garbage": _garbage,
    "gzip-bomb": _gzip_bomb,
    "huge-header": _huge_header,
    "ok": _ok,
    "raw": _raw,
    "redirect": _redirect,
    "redirect-loop": _redirect_loop,
    "reset": _reset,
    "reset-early": _reset,
    "reset-mid-body": _reset_mid_body,
    "retry-after": _retry_after,
    "slow": _slow,
    "status": _status,
    "upgrade": _upgrade,
    "wire": _wire,
}


async def _main(port: int) -> None:
    async with Receiver(port=port) as receiver:
        print(receiver.port, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A webhook receiver for tests.")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free port")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_main(parser.parse_args().port))

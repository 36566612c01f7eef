"""A relay that puts a distance between a client and a receiver: it delays the bytes of both sides,
and the end of their connections.

`python -m tests.support.distance PORT SECONDS` runs it before a port of this machine as a process,
which prints the relay's port as its first line.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import cast

_CONNECTING_SECONDS = 0.001
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER with no time to linger


class Distance:
    """The relay before `port` of this machine, with a delay of `seconds` in each direction. Use it
    as an async context manager; then `relayed_port` is the one to connect to."""

    def __init__(self, port: int, seconds: float) -> None:
        self._port = port
        self._seconds = seconds
        self._tasks: set[asyncio.Task[None]] = set()
        self._sides: set[_Side] = set()

    async def __aenter__(self) -> Distance:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accept, "127.0.0.1", 0, backlog=1024)
        self.relayed_port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await asyncio.gather(*self._tasks)
        while self._sides:
            await self._sides.pop().abandon()
        await self._server.wait_closed()

    def _accept(self) -> _Side:
        client, receiver = (_Side(self._seconds, self._sides) for _ in range(2))
        client.other, receiver.other = receiver, client
        task = asyncio.ensure_future(self._connect(client, receiver))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return client

    async def _connect(self, client: _Side, receiver: _Side) -> None:
        await asyncio.sleep(self._seconds)
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: receiver, "127.0.0.1", self._port
            )
        except OSError:
            client.reset()


class _Side(asyncio.Protocol):
    """The connection to one of the two sides, in `registry` while it is open. What it receives
    reaches `other` after the delay."""

    other: _Side

    def __init__(self, seconds: float, registry: set[_Side]) -> None:
        self._seconds = seconds
        self._registry = registry
        self._connected = False
        self._lost = asyncio.Event()
        self._received_end = self._sent_end = False
        self._under_way: deque[Callable[[], None]] = deque()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._registry.add(self)
        self._connected = True

    def data_received(self, data: bytes) -> None:
        self._later(lambda: self.other.write(data))

    def eof_received(self) -> bool:
        self._received_end = True
        self._later(self.other.end)
        if self._sent_end:
            self._transport.close()
        return True  # the other direction stays open

    def connection_lost(self, exc: Exception | None) -> None:
        self._registry.discard(self)
        self._lost.set()
        if exc is not None:
            self._later(self.other.reset)
        elif not self._received_end:
            self._later(self.other.end)

    def write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    def end(self) -> None:
        if self._transport.is_closing():
            return
        self._sent_end = True
        if self._received_end:
            self._transport.close()
        else:
            self._transport.write_eof()

    def reset(self) -> None:
        if not self._transport.is_closing():
            own = cast(socket.socket, self._transport.get_extra_info("socket"))
            own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self._transport.abort()

    async def abandon(self) -> None:
        self._transport.abort()
        await self._lost.wait()

    def _later(self, action: Callable[[], None]) -> None:
        """Do this after the delay, and after what is under way already."""
        self._under_way.append(action)
        asyncio.get_running_loop().call_later(self._seconds, self._arrive)

    def _arrive(self) -> None:
        if self.other._connected:
            self._under_way.popleft()()
        elif not self._transport.is_closing():
            asyncio.get_running_loop().call_later(_CONNECTING_SECONDS, self._arrive)


async def _main(port: int, seconds: float) -> None:
    async with Distance(port, seconds) as distance:
        print(distance.relayed_port, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A relay that delays both directions.")
    parser.add_argument("port", type=int)
    parser.add_argument("seconds", type=float)
    arguments = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_main(arguments.port, arguments.seconds))

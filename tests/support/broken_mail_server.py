"""A mail server that speaks as far as it is told to, and then hangs or breaks the connection."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from typing import Self

from tests.e2e.service_process import free_ports

_ANSWERS = {
    b"EHLO": b"250-mail.example\r\n250 STARTTLS\r\n",
    b"MAIL": b"250 OK\r\n",
    b"RCPT": b"250 OK\r\n",
    b"DATA": b"354 Go on\r\n",
    b"STARTTLS": b"220 Go on\r\n",
    b"QUIT": b"221 Bye\r\n",
    b"RSET": b"250 OK\r\n",
}


class BrokenMailServer:
    """Listens while its `async with` block runs. `at` is the command after which it does `then`:
    `connect`, the name of a command, or `message` for the end of the message. `then` is `hang`,
    `reset`, or the text of an answer. `messages` counts the messages that it got, `connections`
    the open connections, `busiest` the most at once."""

    def __init__(self, *, at: str = "", then: str = "") -> None:
        (self.port,) = free_ports(1)
        self.at, self.then = at, then
        self.messages = 0
        self.connections = self.busiest = 0
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        return f"smtp://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.let_go()

    def let_go(self) -> None:
        """Close all connections, also those that hang."""
        for writer in self._open:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        self.connections += 1
        self.busiest = max(self.busiest, self.connections)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._talk(reader, writer)
        finally:
            self.connections -= 1
            self._open.discard(writer)
            writer.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._answer(reader, writer, "connect", b"220 mail.example\r\n")
        while line := await reader.readline():
            command = line.split(maxsplit=1)[0].strip().upper()
            if command not in _ANSWERS:  # such as the first bytes of TLS
                return
            await self._answer(reader, writer, command.decode(), _ANSWERS[command])
            if command == b"DATA" and self.at != "DATA":
                await reader.readuntil(b"\r\n.\r\n")
                self.messages += 1
                await self._answer(reader, writer, "message", b"250 Accepted\r\n")

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, at: str, usual: bytes
    ) -> None:
        if at != self.at:
            writer.write(usual)
        elif self.then == "hang":
            await reader.read()
            raise ConnectionError
        elif self.then == "reset":
            linger = struct.pack("ii", 1, 0)  # closing sends RST
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            raise ConnectionError
        else:
            writer.write(self.then.encode() + b"\r\n")
        await writer.drain()

"""A proxy to a PostgreSQL server that can cut, freeze or silence connections."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import Self

from sqlalchemy import make_url

_SOCKET = ".s.PGSQL.5432"


class DatabaseProxy:
    """A proxy for the database at `url`; its own `url` works while the proxy listens."""

    def __init__(self, url: str) -> None:
        parsed = make_url(url)
        self._server = str(Path(str(parsed.query["host"])) / _SOCKET)
        # not under tmp_path: a UNIX socket's path may have at most 107 characters
        self._folder = tempfile.mkdtemp(prefix="hookfast-proxy-")
        self.url = parsed.set(query={"host": self._folder}).render_as_string(hide_password=False)
        self._listening: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._relays: set[asyncio.Task[None]] = set()
        self._silenced = 0
        self._flowing = asyncio.Event()
        self._flowing.set()

    def silence(self) -> None:
        """Drop all data on the connections that are open now, without closing them, as a firewall
        does that has lost their state. New connections work."""
        self._silenced += 1

    def freeze(self) -> None:
        """Hold back all data until `thaw`, as if the server had stopped."""
        self._flowing.clear()

    def thaw(self) -> None:
        """Forward the data that `freeze` held back."""
        self._flowing.set()

    async def listen(self) -> None:
        """Accept connections."""
        self._listening = await asyncio.start_unix_server(
            self._relay, str(Path(self._folder) / _SOCKET)
        )

    async def cut(self) -> None:
        """Close every connection, and accept no new ones."""
        assert self._listening is not None
        self._listening.close()
        for writer in self._open:
            writer.transport.abort()
        await asyncio.gather(*self._relays, return_exceptions=True)
        (Path(self._folder) / _SOCKET).unlink(missing_ok=True)
        self._listening = None

    async def __aenter__(self) -> Self:
        await self.listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.thaw()
        if self._listening is not None:
            await self.cut()
        shutil.rmtree(self._folder)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._relays.add(task)
        task.add_done_callback(self._relays.discard)
        to_server = await asyncio.open_unix_connection(self._server)
        self._open |= {writer, to_server[1]}
        try:
            await asyncio.gather(self._copy(reader, to_server[1]), self._copy(to_server[0], writer))
        finally:
            for stream in (writer, to_server[1]):
                self._open.discard(stream)
                stream.close()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        silenced = self._silenced
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65_536):
                await self._flowing.wait()
                if self._silenced == silenced:
                    writer.write(data)
                    await writer.drain()
        if self._silenced == silenced:
            writer.close()

"""Forwards connections to Temporal's frontends in turn, as a Kubernetes service does.

`python -m bench.cluster.balancer <port> <address>…` passes over an address that refuses. An open
connection ends with its frontend; the client then connects again.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys

import uvloop

_CHUNK = 65_536


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(_CHUNK):
        writer.write(chunk)
        await writer.drain()


async def _serve(port: int, addresses: list[str]) -> None:
    turns = itertools.cycle(range(len(addresses)))

    async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        first = next(turns)
        for address in (*addresses[first:], *addresses[:first]):
            host, _, number = address.rpartition(":")
            with contextlib.suppress(OSError):
                return await asyncio.open_connection(host, int(number))
        return None

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = await connect()
        if target is not None:
            both = [_pump(reader, target[1]), _pump(target[0], writer)]
            tasks = [asyncio.create_task(one) for one in both]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            target[1].close()
        writer.close()

    server = await asyncio.start_server(forward, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1]), sys.argv[2:]))

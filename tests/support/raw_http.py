"""HTTP requests as raw bytes, for what no HTTP client would send."""

from __future__ import annotations

import asyncio

from tests.support.waiting import PATIENCE


async def exchange(port: int, *parts: bytes, pause: float = 0.0) -> str:
    """Send these bytes to a server on loopback, with `pause` seconds after each part, and return
    everything that it sends until it closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(pause)
        async with asyncio.timeout(PATIENCE):
            return (await reader.read()).decode()
    finally:
        writer.close()
        await writer.wait_closed()

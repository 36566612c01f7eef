"""Asks `/readyz` until nothing is missing, with the standard library alone."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from urllib.parse import urlsplit

_READY_SECONDS = 30.0
_PAUSE_SECONDS = 0.1


async def wait_until_ready(api_url: str) -> tuple[str, ...]:
    """Nothing, as soon as the service is ready; else what it lacks after 30 s."""
    missing: tuple[str, ...] = ("api",)
    with suppress(TimeoutError):
        async with asyncio.timeout(_READY_SECONDS):
            while missing:
                await asyncio.sleep(_PAUSE_SECONDS)
                # nothing listens, it was killed in the middle, or its answer was cut
                with suppress(OSError, EOFError, ValueError):
                    missing = await _missing(api_url)
    return missing


async def _missing(api_url: str) -> tuple[str, ...]:
    place = urlsplit(api_url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    try:
        writer.write(
            b"GET /readyz HTTP/1.1\r\nHost: %b\r\nConnection: close\r\n\r\n" % place.netloc.encode()
        )
        answer = await reader.read()
    finally:
        writer.close()
    return tuple(json.loads(answer.partition(b"\r\n\r\n")[2])["missing"])

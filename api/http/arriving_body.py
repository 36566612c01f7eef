"""A request body that arrives, within bounds of its size, its time and the memory for bodies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from api.answers.problems import BodyTimeout
from api.context.context import Context
from api.http.exchange import Exchange
from hookfast.byte_budget import SMALL_BYTES, Claim, NoRoom
from hookfast.errors import InvalidInput, TooLarge
from hookfast.settings.settings import Settings

STALL_SECONDS = 5.0
"""A body of which nothing arrives for this long is refused."""


class ArrivingBody:
    """A body that arrives, of at most `cap` bytes. Beyond `SMALL_BYTES` it is counted in the budget
    for what `owners` returns, until its answer has been sent."""

    def __init__(
        self, exchange: Exchange, *, cap: int, owners: Callable[[], tuple[str, ...]]
    ) -> None:
        self._exchange = exchange
        self._app = exchange.scope["app"]
        self._cap = cap
        self._owners = owners
        self._claim: Claim | None = None
        self._chunks: list[bytes] = []
        self._dropped = False

    async def read(self) -> bytes | None:
        """Return the whole body, or None if the client disconnected before it was complete. Raises
        TooLarge, NoRoom, and BodyTimeout if it arrives too slowly. Nothing of it is kept then."""
        body = None
        try:
            body = await self._read()
        finally:
            if self._claim is not None:
                self._claim.on_drop = None
                if body is None:
                    self._chunks.clear()  # the traceback of an error would keep them
                    self._claim.shrink(self._claim.size)
        return body

    async def _read(self) -> bytes | None:
        settings: Settings = self._app.state.settings
        seconds = settings.max_body_seconds.total_seconds()
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + seconds
        size = 0
        try:
            async with asyncio.timeout(min(seconds, STALL_SECONDS)) as self._deadline:
                while True:
                    message = await self._exchange.receive()
                    if self._dropped:  # and a part of it came at the same moment
                        raise NoRoom
                    if message["type"] == "http.disconnect":
                        return None
                    chunk: bytes = message.get("body", b"")
                    size += len(chunk)
                    if size > self._cap:
                        raise too_large(self._cap)
                    self._chunks.append(chunk)
                    if size > SMALL_BYTES:
                        ends_at += await self._count(len(chunk), size)
                    if not message.get("more_body", False):
                        break
                    self._deadline.reschedule(min(ends_at, loop.time() + STALL_SECONDS))
        except TimeoutError:
            if self._dropped:
                raise NoRoom from None
            if loop.time() < ends_at:
                raise BodyTimeout(
                    f"Nothing of the body arrived for {STALL_SECONDS:g} seconds."
                ) from None
            raise BodyTimeout(f"The body did not arrive within {seconds:g} seconds.") from None
        whole, self._chunks = self._chunks, []
        return whole[0] if len(whole) == 1 else b"".join(whole)

    async def _count(self, arrived: int, size: int) -> float:
        """Count that so much has arrived now, and in all. Return for how many seconds there was no
        room."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._deadline.reschedule(None)
        if self._claim is None:
            context: Context = self._app.state.context
            expected = declared_length(dict(self._exchange.scope["headers"])) or self._cap
            self._claim = self._exchange.memory.enter_context(
                context.bodies.claim(
                    "request body", *self._owners(), expected=expected, on_drop=self._drop
                )
            )
        self._claim.move(arrived)
        await self._claim.grow(size - self._claim.size, loaded=True)
        return loop.time() - began

    def _drop(self) -> None:
        self._dropped = True
        self._deadline.reschedule(asyncio.get_running_loop().time())


def declared_length(fields: Mapping[bytes, bytes]) -> int:
    """Return Content-Length, or 0 if the header is missing."""
    value = fields.get(b"content-length", b"0")
    if not value.isdigit() or len(value) > 18:
        raise InvalidInput.at("Content-Length", "Content-Length is not a length in bytes")
    return int(value)


def too_large(cap: int) -> TooLarge:
    return TooLarge(f"The body is larger than {cap} bytes, the maximum for this path.")

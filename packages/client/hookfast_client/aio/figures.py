"""Reads deliveries and attempts over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack, cast

from hookfast_client import call

if TYPE_CHECKING:
    from hookfast_client.aio.client import AsyncHookfast
    from hookfast_client.types import FigureSeries, GetFiguresQuery


class AsyncFigures:
    """Deliveries and attempts over time."""

    def __init__(self, client: AsyncHookfast) -> None:
        self._client = client

    async def get(self, **query: Unpack[GetFiguresQuery]) -> FigureSeries:
        """Return the figures of a time, step by step; of the last 24 hours by default."""
        return cast("FigureSeries", await self._client.fetch(call.get("/figures", query)))

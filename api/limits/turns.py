"""The limit of requests that a tenant has this process work on at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from weakref import WeakValueDictionary

AT_ONCE: Final = 4
"""How many requests of a tenant are worked on. With 900 pages of one tenant asked for at once, an
event of 200 kB of another one took 7 s without a limit; with as many lists of 200 deliveries, it
took 1.5 s with 8 and 0.9 s with 4."""


class Turns:
    """Makes a tenant's requests wait for one another, so that others have to wait for few of them:
    of 900 lists or pages at once, the event loop would otherwise take a step of each in turn."""

    def __init__(self) -> None:
        self._of: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def of(self, tenant_id: str | None) -> AsyncIterator[None]:
        """Wait until fewer than `AT_ONCE` of the tenant's requests are worked on, and count one
        while the block runs. The operator's (None) do not wait."""
        if tenant_id is None:
            yield
            return
        turns = self._of.get(tenant_id) or self._of.setdefault(
            tenant_id, asyncio.Semaphore(AT_ONCE)
        )
        async with turns:
            yield

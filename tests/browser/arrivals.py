"""Deliveries that appear while a browser test runs."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

from hookfast.storage.database.engine import Database
from tests.browser.conftest import Site
from tests.browser.scene import add_delivery


def add_deliveries(site: Site, *moments: datetime, status: str = "delivered") -> list[str]:
    """Insert deliveries of the failing endpoint that were created at these times; return their
    ids, in that order."""
    scene = site.scene
    ids = {
        "event": scene.event_id,
        "broken": scene.broken,
        "broken subscription": scene.broken_subscription,
        "tenant": scene.tenant_id,
    }

    async def insert() -> list[str]:
        async with Database(site.database_url) as database:
            return [await add_delivery(database, ids, "broken", at, status) for at in moments]

    with ThreadPoolExecutor(1) as executor:  # Playwright has an event loop in this thread
        return executor.submit(asyncio.run, insert()).result()

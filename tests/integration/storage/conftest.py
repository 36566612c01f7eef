from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from hookfast.storage.database.engine import Database
from tests.support.seed import seed_endpoint


@pytest.fixture
async def workers(database_url: str) -> AsyncIterator[list[Database]]:
    """The databases of three workers, each with its own pool. They share only the tables."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(Database(database_url)) for _ in range(3)]


@pytest.fixture
async def endpoint(database: Database) -> str:
    """The id of a stored endpoint."""
    return await seed_endpoint(database, "https://example.com/hook")

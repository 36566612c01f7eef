"""The API served on loopback, and both kinds of client for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from hookfast.settings.settings import Settings
from hookfast_client import AsyncHookfast, Hookfast
from hookfast_client.sync.pages import Pages
from tests.support.api_client import OPERATOR_KEY, development_settings
from tests.support.api_server import ApiServer, api_server

TYPE = "order.invoice.paid"


class InThread:
    """A blocking client, called in a thread, so that one test can use either kind: `await` its
    methods, and `async for` over its lists."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        return (
            InThread(found)
            if type(found).__module__.startswith("hookfast_client")
            else (_called_in_thread(found) if callable(found) else found)
        )


def _called_in_thread(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        if function.__name__ in ("list", "deliveries", "keys", "operator_keys"):
            return _in_thread_pages(function(*arguments, **named))
        return asyncio.to_thread(function, *arguments, **named)

    return call


async def _in_thread_pages(pages: Pages[Any]) -> AsyncIterator[Any]:
    for item in await asyncio.to_thread(list, pages):
        yield item


@pytest.fixture(autouse=True)
def temporal_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Temporal is unreachable. Port 9 (discard) is closed."""
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:9")


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    return development_settings(database_url, tmp_path)


@pytest.fixture
async def served(settings: Settings) -> AsyncIterator[ApiServer]:
    async with api_server(settings) as served:
        yield served


@pytest.fixture
async def hookfast(served: ApiServer) -> AsyncIterator[AsyncHookfast]:
    """The client for asyncio, with the operator's key."""
    async with AsyncHookfast(served.url, OPERATOR_KEY) as client:
        yield client


@pytest.fixture
def blocking(served: ApiServer) -> AsyncIterator[Any]:
    """The blocking client, called in threads."""
    with Hookfast(served.url, OPERATOR_KEY) as client:
        yield InThread(client)

"""The API served on loopback, a faulty proxy in front of it, and both kinds of client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from hookfast.settings.settings import Settings
from hookfast_client import AsyncHookfast, Hookfast, retry
from hookfast_client.sync.pages import Pages
from tests.support.api_client import OPERATOR_KEY, development_settings
from tests.support.api_server import ApiServer, api_server
from tests.support.faulty_proxy import FaultyProxy

TYPE = "order.invoice.paid"

Connect: TypeAlias = Callable[..., Any]
"""`connect(url, timeout=…)` returns a client, which is closed after the test. Its methods are
awaited, whichever kind it is."""


def on_both_databases(test: Any) -> Any:
    """Mark a test that runs on both databases; the blocking client is tested on one of them."""
    pairs = [("sqlite", "sync"), ("postgresql", "async")]
    both = pytest.mark.parametrize(("database_url", "connect"), pairs, indirect=True)
    return pytest.mark.both_databases(both(test))


class _InThread:
    """A blocking client, or a part of it, each of whose methods runs in a thread: so one test can
    use either kind of client. A list is read completely at once."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if isinstance(found, str):
            return found
        if name == "with_options":
            return lambda **options: _InThread(found(**options))
        if not callable(found):
            return _InThread(found)
        if name.startswith("list"):
            return lambda *arguments, **named: _listed(found(*arguments, **named))
        return lambda *arguments, **named: asyncio.to_thread(found, *arguments, **named)


async def _listed(pages: Pages[Any]) -> AsyncIterator[Any]:
    for item in await asyncio.to_thread(list, pages):
        yield item


@pytest.fixture(params=["async", "sync"])
async def connect(request: pytest.FixtureRequest) -> AsyncIterator[Connect]:
    """Both kinds of client, one after the other."""
    clients: list[AsyncHookfast | Hookfast] = []

    def connect(url: str, key: str = OPERATOR_KEY, **options: Any) -> Any:
        kind = AsyncHookfast if request.param == "async" else Hookfast
        client = kind(url, key, **options)
        clients.append(client)
        return client if isinstance(client, AsyncHookfast) else _InThread(client)

    yield connect
    for client in clients:
        if isinstance(client, AsyncHookfast):
            await client.aclose()
        else:
            client.close()


@pytest.fixture(autouse=True)
def temporal_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Temporal is unreachable. Port 9 (discard) is closed."""
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:9")


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pauses between attempts are a fiftieth of the usual ones."""
    monkeypatch.setattr(retry, "FIRST_PAUSE", 0.01)


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    return development_settings(database_url, tmp_path)


@pytest.fixture
async def served(settings: Settings) -> AsyncIterator[ApiServer]:
    async with api_server(settings) as served:
        yield served


@pytest.fixture
async def proxy(served: ApiServer) -> AsyncIterator[FaultyProxy]:
    async with FaultyProxy(served.url) as proxy:
        yield proxy


@pytest.fixture
async def hookfast(connect: Connect, proxy: FaultyProxy) -> Any:
    """A client with the operator's key, through the faulty proxy. `TYPE` is registered."""
    client = connect(proxy.url)
    await client.event_types.put(TYPE, description="An invoice was paid.")
    return client

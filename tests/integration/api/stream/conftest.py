"""A real server, and clients that read its streams."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn

from api.context.context import Context
from hookfast.settings.settings import Settings
from tests.support.api_client import OPERATOR_KEY, Json, development_settings
from tests.support.api_server import api_server
from tests.support.waiting import PATIENCE

TYPE = "order.invoice.paid"


class Message:
    """A block of the stream."""

    def __init__(self, block: str) -> None:
        # parsed independently of the code that wrote it, as a client does
        pairs = [line.partition(": ")[::2] for line in block.split("\n") if line[:1] != ":"]
        fields = dict(pairs)
        self.id = fields.get("id")
        self.name = fields.get("event")
        self.data: Json = httpx2.Response(200, text=fields.get("data", "null")).json()


class Stream:
    """An open stream. `last_id` is the id with which its client would resume."""

    def __init__(self, answer: httpx2.Response) -> None:
        self.answer = answer
        self.last_id: str | None = None
        self._text = ""
        self._chunks = answer.aiter_text()

    async def next(self) -> Message | None:
        """Return the next block, or None at the end of the stream."""
        async with asyncio.timeout(PATIENCE):
            while "\n\n" not in self._text:
                try:
                    self._text += await anext(self._chunks)
                except StopAsyncIteration:
                    return None
        block, _, self._text = self._text.partition("\n\n")
        message = Message(block)
        self.last_id = message.id or self.last_id
        return message

    async def events(self, count: int) -> list[Json]:
        """Return the next `count` events."""
        found: list[Json] = []
        while len(found) < count:
            message = await self.next()
            assert message is not None, f"the stream ended after {len(found)} events"
            if message.name is not None:
                assert message.name == "event", message.data
                found.append(message.data)
        return found


Open = Callable[..., AbstractAsyncContextManager[Stream]]


class Served:
    """A running API, its parts, and clients for it."""

    def __init__(self, url: str, context: Context, server: uvicorn.Server) -> None:
        self.url = url
        self.context = context
        self.server = server
        self.operator = self.client(OPERATOR_KEY)

    def client(self, key: str) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            base_url=f"{self.url}/v1",
            headers={"Authorization": f"Bearer {key}"},
            timeout=PATIENCE,
            trust_env=False,
        )

    @asynccontextmanager
    async def stream(
        self, key: str = OPERATOR_KEY, *, last_id: str | None = None, **params: Any
    ) -> AsyncIterator[Stream]:
        """Open a stream, and read its opening block."""
        headers = {} if last_id is None else {"Last-Event-ID": last_id}
        async with (
            self.client(key) as client,
            client.stream("GET", "/stream", params=params, headers=headers) as answer,
        ):
            assert answer.status_code == 200, await answer.aread()
            stream = Stream(answer)
            assert await stream.next() is not None
            yield stream

    async def tenant(self) -> tuple[str, str]:
        """Create a tenant, and return it with one of its keys."""
        made = await self.operator.post("/tenants", json={"name": "Acme"})
        tenant = str(made.json()["id"])
        return tenant, await self.key(tenant, "tenant:read")

    async def key(self, tenant: str, scope: str) -> str:
        form = {"scope": scope, "name": "x"}
        answer = await self.operator.post(f"/tenants/{tenant}/api-keys", json=form)
        return str(answer.json()["key"])

    async def polled(self, tenant: str) -> str:
        """Create an endpoint of the tenant that is polled, and return the path of its poll."""
        form = {"mode": "poll", "tenant_id": tenant, "events": ["**"]}
        answer = await self.operator.post("/endpoints", json=form)
        return f"/endpoints/{answer.json()['id']}/poll"

    async def until_taken(self, slots: int) -> None:
        """Wait until so many slots of streams are taken."""
        while self.context.stream_slots.taken != slots:  # noqa: ASYNC110 - no event for it
            await asyncio.sleep(0.02)

    async def emit(self, tenant: str | None, count: int = 1, **more: Any) -> list[str]:
        event = {"type": TYPE, "data": {"ü": "\u2028"}, "tenant_id": tenant} | more
        answer = await self.operator.post("/events/batch", json={"events": [event] * count})
        return [str(item["id"]) for item in answer.json()["data"]]


@asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[Served]:
    """The API, with clients for it and an event type."""
    async with api_server(settings) as server:
        served = Served(server.url, server.context, server.uvicorn)
        await served.operator.put(f"/event-types/{TYPE}", json={})
        try:
            yield served
        finally:
            await served.operator.aclose()


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    return development_settings(database_url, tmp_path)


@pytest.fixture
async def served(settings: Settings) -> AsyncIterator[Served]:
    async with serving(settings) as served:
        yield served


def ids(events: list[Json]) -> list[str]:
    return [event["id"] for event in events]

"""An API that runs beside a worker, and the texts in which no secret may be."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
from sqlalchemy import select
from sqlmodel import SQLModel

from api.app import create_app
from api.context.context import Context
from hookfast.settings.settings import Settings
from hookfast.storage.database.engine import Database
from hookfast.storage.keys.new_keys import ensure_operator_key
from tests.integration.delivery.conftest import Stack
from tests.integration.delivery.plans import QUICK
from tests.support.api_client import OPERATOR_KEY, Json, client_with
from tests.support.receiver import Receiver
from tests.support.seed import EVENT_TYPE


@dataclass(frozen=True)
class Platform:
    """A client of an API that runs beside the worker."""

    client: httpx2.AsyncClient
    receiver: Receiver
    tenant_id: str

    async def endpoint(self, path: str = "/ok", **members: Any) -> Json:
        form = {
            "tenant_id": self.tenant_id,
            "url": self.receiver.url(path),
            "verification": "none",
            "events": ["**"],
            "retry_plan": QUICK,
        }
        answer = await self.client.post("/endpoints", json=form | members)
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    async def emit(self, data: object) -> str:
        """Emit an event and return the id of its delivery."""
        form = {"type": EVENT_TYPE, "tenant_id": self.tenant_id, "data": data}
        answer = await self.client.post("/events", json=form)
        assert answer.status_code == 202, answer.text
        listed = await self.client.get(f"/events/{answer.json()['id']}/deliveries")
        return str(listed.json()["data"][0]["id"])

    async def directory(self, **params: str) -> list[Json]:
        answer = await self.client.get(
            "http://hookfast.test/.well-known/hookfast-keys.json", params=params
        )
        return list(answer.json()["keys"])


@asynccontextmanager
async def running_platform(stack: Stack, settings: Settings) -> AsyncIterator[Platform]:
    """Run the API with these settings, whose operator key is that of the tests."""
    app = create_app(settings)
    async with app.router.lifespan_context(app):
        context: Context = app.state.context
        await ensure_operator_key(context.database, settings, clock=context.clock)
        async with client_with(app, OPERATOR_KEY) as client:
            await client.put(f"/event-types/{EVENT_TYPE}", json={})
            tenant = (await client.post("/tenants", json={"name": "Acme"})).json()
            yield Platform(client, stack.receiver, tenant["id"])


async def history_text(stack: Stack, delivery_id: str) -> str:
    """Return every string in the history of the delivery's workflow, with payloads decoded."""
    history = await stack.workflow(delivery_id).fetch_history()
    return "\n".join(_texts(json.loads(history.to_json())))


def _texts(value: Any) -> Iterator[str]:
    """Yield every string of a history, with payloads decoded."""
    if isinstance(value, dict):
        for name, member in value.items():
            if name == "data" and isinstance(member, str):
                yield base64.b64decode(member).decode()
            yield from _texts(member)
    elif isinstance(value, list):
        for member in value:
            yield from _texts(member)
    elif isinstance(value, str):
        yield value


async def everything_stored(database: Database) -> str:
    """Return every row of every table, as text."""
    found = []
    async with database.read() as connection:
        for table in SQLModel.metadata.sorted_tables:
            found += [repr(tuple(row)) for row in await connection.execute(select(table))]
    return "\n".join(found)

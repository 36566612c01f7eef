"""An application with an outbox, a real Hookfast, and a relay that says what it does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import asyncpg
from sqlalchemy import select

from hookfast.storage.tables import Event
from hookfast_client import AsyncHookfast, call
from hookfast_client.outbox import emit_in
from hookfast_client.outbox.observer import Batch, Observer, RejectedRow
from hookfast_client.outbox.queue import Figures, Queue
from hookfast_client.outbox.relay import Relay
from hookfast_client.outbox.run import poster
from hookfast_client.outbox.table import TableName
from tests.support.api_server import ApiServer

TYPE = "order.invoice.paid"


@dataclass
class Heard(Observer):
    """Keeps what the relay reports."""

    batches: list[Batch] = field(default_factory=list)
    rejections: list[RejectedRow] = field(default_factory=list)
    away: list[str] = field(default_factory=list)
    postponements: list[tuple[str, str]] = field(default_factory=list)
    last: Figures | None = None
    connections: int = 0

    def started(self, *, table: str) -> None:
        self.connections += 1

    def batch(self, batch: Batch) -> None:
        self.batches.append(batch)

    def rejected(self, row: RejectedRow) -> None:
        self.rejections.append(row)

    def api_away(self, error: str, *, seconds: float) -> None:
        self.away.append(error)

    def database_away(self, error: str, *, seconds: float) -> None:
        self.away.append(error)

    def postponed(self, tenant: str, code: str, *, seconds: float) -> None:
        self.postponements.append((tenant, code))

    def figures(self, figures: Figures) -> None:
        self.last = figures

    @property
    def sent(self) -> int:
        return sum(batch.sent for batch in self.batches)


@dataclass
class World:
    """An application's database and a Hookfast."""

    url: str
    served: ApiServer
    hookfast: AsyncHookfast

    async def emit(self, *data: Any, **more: Any) -> None:
        """Commit an event for each of `data`."""
        async with self.connection() as connection, connection.transaction():
            for one in data:
                await emit_in(connection, **({"type": TYPE, "data": one} | more))

    async def emit_and_roll_back(self, data: Any) -> None:
        """Emit an event in a transaction that is rolled back."""
        async with self.connection() as connection:
            transaction = connection.transaction()
            await transaction.start()
            await emit_in(connection, TYPE, data)
            await transaction.rollback()

    def relay(self, observer: Observer | None = None, **options: Any) -> Relay:
        given: dict[str, Any] = {"post": poster(self.hookfast), "poll_seconds": 0.2} | options
        return Relay(
            database_url=self.url,
            queue=Queue(TableName("hookfast_outbox")),
            observer=observer or Heard(),
            **given,
        )

    async def put(self, path: str, form: Any) -> Any:
        return (await self.hookfast.send(call.put(path, form))).value

    async def post(self, path: str, form: Any) -> Any:
        return (await self.hookfast.send(call.post(path, form))).value

    async def drain(self, **options: Any) -> Heard:
        heard = Heard()
        await self.relay(heard, **options).run(until_empty=True)
        return heard

    async def events(self) -> list[Any]:
        """The data of the events in Hookfast, oldest first."""
        async with self.served.context.database.read() as connection:
            bodies = await connection.execute(select(Event.__table__.c.body).order_by("id"))
            return [json.loads(body)["data"] for body in bodies.scalars()]

    async def rows(self, condition: str = "true") -> list[asyncpg.Record]:
        async with self.connection() as connection:
            found: list[asyncpg.Record] = await connection.fetch(
                "SELECT id, type, data::text, event_id, error FROM hookfast_outbox "  # noqa: S608
                f"WHERE {condition} ORDER BY id"
            )
            return found

    async def all_free(self) -> bool:
        """Whether nobody has locked a row."""
        async with self.connection() as connection, connection.transaction():
            free = await connection.fetch("SELECT FROM hookfast_outbox FOR UPDATE SKIP LOCKED")
            rows = await connection.fetchval("SELECT count(*) FROM hookfast_outbox")
            return len(free) == int(rows)

    async def end_relays_connections(self) -> None:
        """End the relays' connections to the database, with whatever they are doing."""
        await self.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'hookfast-outbox-relay'"
        )

    async def is_empty(self) -> bool:
        return not await self.rows()

    async def execute(self, sql: str, *values: Any) -> None:
        async with self.connection() as connection:
            await connection.execute(sql, *values)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        connection = await asyncpg.connect(self.url)
        try:
            yield connection
        finally:
            await connection.close()


@asynccontextmanager
async def running(relay: Relay) -> AsyncIterator[None]:
    task = asyncio.create_task(relay.run())
    try:
        yield
    finally:
        relay.stop()
        await task

"""Events whose commit PostgreSQL answers on a connection that breaks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from sqlalchemy.exc import SQLAlchemyError

from hookfast.storage.database.availability import is_transient
from hookfast.storage.database.engine import Database
from hookfast.storage.tables import Event
from tests.integration.storage.emitting.emitters import count, emit, process, seed_type
from tests.support.database_proxy import DatabaseProxy

pytestmark = pytest.mark.anyio


class Deaf(DatabaseProxy):
    """With `deaf`, closes a connection when the server answers on it, in place of the answer."""

    deaf = False

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_client = str(writer.get_extra_info("sockname")).startswith(self._folder)
        while data := await reader.read(65_536):
            if to_client and self.deaf:
                break
            writer.write(data)
            await writer.drain()
        writer.transport.abort()


@pytest.mark.parametrize("number", [1, 5])
async def test_events_are_stored_once_although_their_answer_is_lost(
    postgresql_url: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They commit by themselves, so the group must not store them again one by one."""
    async with Deaf(postgresql_url) as line, Database(postgresql_url) as direct:
        event_type = await seed_type(direct)
        async with process(line.url) as emitter:
            for _ in range(2):  # so that the statements are prepared
                group = [emit(emitter, event_type) for _ in range(number)]
                await asyncio.gather(*group)
            write = emitter._database.write

            def write_and_lose_the_answer(**options: Any) -> Any:
                line.deaf = True
                return write(**options)

            monkeypatch.setattr(emitter._database, "write", write_and_lose_the_answer)
            group = [emit(emitter, event_type) for _ in range(number)]
            results = await asyncio.gather(*group, return_exceptions=True)
            assert all(isinstance(one, SQLAlchemyError) for one in results)
            assert all(is_transient(one) for one in results if isinstance(one, SQLAlchemyError))
        await asyncio.sleep(0.2)
        assert 2 * number < await count(direct, Event) <= 3 * number

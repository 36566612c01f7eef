"""Emitting through both clients, on both databases."""

from __future__ import annotations

from typing import Any

import pytest

from hookfast_client import AsyncHookfast, InvalidInput, NotFound
from hookfast_client.call import put
from tests.integration.client.conftest import TYPE

pytestmark = [pytest.mark.anyio, pytest.mark.both_databases]


@pytest.fixture
async def clients(hookfast: AsyncHookfast, blocking: Any) -> tuple[Any, Any]:
    await hookfast.send(put(f"/event-types/{TYPE}", {}))
    return hookfast, blocking


async def test_emit_and_batch(clients: tuple[Any, Any]) -> None:
    for client in clients:
        first = await client.events.emit(TYPE, {"a": 1}, idempotency_key="k1")
        again = await client.events.emit(TYPE, b'{"a": 1}', idempotency_key="k1")
        print(first, again)
        events = [{"type": TYPE, "data": n} for n in range(2500)]
        events[1200]["type"] = "no.such.type"
        result = await client.events.emit_batch(events)
        assert len(result) == 2500 and result.rejected == 1
        assert isinstance(result.items[1200].error, InvalidInput), result.items[1200]
        print(result.items[1200].error)
        with pytest.raises(NotFound) as e:
            await client.events.get("evt_" + "0" * 32)
        print(e.value, repr(client))
        assert len([x async for x in client.events.list()]) >= 2500

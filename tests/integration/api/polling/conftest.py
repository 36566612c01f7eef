"""A tenant that polls an endpoint."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest

from tests.integration.api.polling.polls import TYPE
from tests.support.api_client import KeyClient, Make, MakeEventType


@pytest.fixture
async def tenant_id(make_tenant: Make, make_event_type: MakeEventType) -> str:
    await make_event_type(TYPE)
    await make_event_type("order.refund.made")
    return str((await make_tenant())["id"])


@pytest.fixture
async def tenant(key_client: KeyClient, tenant_id: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with key_client(tenant_id) as client:
        yield client


@pytest.fixture
async def polled(tenant: httpx2.AsyncClient) -> str:
    """A polled endpoint that is subscribed to all orders."""
    answer = await tenant.post("/endpoints", json={"mode": "poll", "events": ["order.**"]})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])

"""Polling an endpoint whose subscriptions have content filters."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

from hookfast.storage.events import filtering
from hookfast.storage.feed import poll as stored_poll
from tests.integration.api.polling.polls import TYPE, emit, numbers, poll
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio


@pytest.fixture
async def filtered(tenant: httpx2.AsyncClient) -> str:
    """A polled endpoint that gets the events with an `n` over 10, or of 5."""
    answer = await tenant.post("/endpoints", json={"mode": "poll"})
    endpoint = str(answer.json()["id"])
    for conditions in ({"n": {"$gt": 10}}, {"n": 5}):
        body = {"endpoint_id": endpoint, "events": ["order.**"], "filter": conditions}
        made = await tenant.post("/subscriptions", json=body)
        assert made.status_code == 201, made.text
    return endpoint


async def emit_all(tenant: httpx2.AsyncClient, *found: int) -> None:
    events = [{"type": TYPE, "data": {"n": n}} for n in found]
    answer = await tenant.post("/events/batch", json={"events": events})
    assert answer.json()["rejected"] == 0


async def poll_all(tenant: httpx2.AsyncClient, endpoint: str, **query: Any) -> list[list[int]]:
    """Poll until there is nothing more; return the numbers of each page."""
    pages: list[list[int]] = []
    while True:
        page = await poll(tenant, endpoint, **query)
        pages.append(numbers(page))
        query["cursor"] = page["next_cursor"]
        if page["done"]:
            return pages


async def test_poll_skips_what_filters_keep_out(
    tenant: httpx2.AsyncClient, filtered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_poll, "_FILTERED_AT_ONCE", 10)
    await emit_all(tenant, *range(1, 40), *[0] * 30)
    page = await poll(tenant, filtered, limit=3)
    assert numbers(page) == [5, 11, 12]
    assert (await poll(tenant, filtered, limit=3)) == page
    first, second = (item["subscription_id"] for item in page["data"][:2])
    assert first != second
    items = page["data"]
    assert numbers(await poll(tenant, filtered, cursor=items[0]["cursor"], limit=1)) == [11]
    pages = await poll_all(tenant, filtered, limit=10, ack="none", cursor="start")
    assert [number for page in pages for number in page] == [5, *range(11, 40)]
    assert len(pages) <= 4
    assert await poll_all(tenant, filtered, limit=200) == [[*range(11, 40)]]


@pytest.mark.parametrize("limit", ["bytes", "steps"])
async def test_long_run_of_events_that_are_kept_out_never_stalls_the_position(
    tenant: httpx2.AsyncClient, filtered: str, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    if limit == "bytes":
        monkeypatch.setattr(stored_poll, "_FILTERED_BYTES", 2_000)  # about ten events
        monkeypatch.setattr(stored_poll, "_FILTERED_AT_ONCE", 5)
    else:
        monkeypatch.setattr(stored_poll, "_FILTER_STEPS", 50)  # about ten events too
        monkeypatch.setattr(filtering, "_TENANT_STEPS", 10)
    await emit_all(tenant, *[0] * 60, 11)
    pages = await poll_all(tenant, filtered, limit=3)
    assert [number for page in pages for number in page] == [11]
    assert len(pages) > 3  # each read only so much, and was empty
    end = (await poll(tenant, filtered, cursor="end"))["next_cursor"]
    await emit_all(tenant, *[0] * 60)
    waiting = asyncio.create_task(poll(tenant, filtered, cursor=end, wait=30))
    await asyncio.sleep(0.3)
    await emit(tenant, 12)
    async with asyncio.timeout(PATIENCE):
        assert numbers(await waiting) == [12]


async def test_changed_filter_applies_to_the_next_poll(
    tenant: httpx2.AsyncClient, filtered: str
) -> None:
    await emit_all(tenant, 1, 11)
    listed = await tenant.get("/subscriptions", params={"endpoint_id": filtered})
    for row in listed.json()["data"]:
        await tenant.patch(f"/subscriptions/{row['id']}", json={"filter": {"n": 1}})
    assert numbers(await poll(tenant, filtered)) == [1]

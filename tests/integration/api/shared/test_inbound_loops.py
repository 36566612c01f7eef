"""`POST /in/…` ends loops: a request that has passed too many sources is rejected and reported."""

from __future__ import annotations

import httpx2
import pytest
from sqlalchemy import Table, select

from api.context.context import Context
from hookfast.events.hops import MAX_HOPS
from hookfast.events.operational import SYSTEM_TENANT, Kind
from hookfast.storage.tables import Event
from tests.integration.api.inbound import send
from tests.integration.api.shared.sources import make_source, stats
from tests.support.api_client import Json, assert_problem

pytestmark = pytest.mark.anyio

EVENTS: Table = Event.__table__


async def reports(client: httpx2.AsyncClient, source: str) -> list[Json]:
    """Return the operational events about loops at this source."""
    query = {"type": Kind.LOOP_DETECTED.value, "limit": 200}
    listed = (await client.get("/events", params=query)).json()["data"]
    events = [(await client.get(f"/events/{row['id']}")).json() for row in listed]
    return [event for event in events if event["data"]["source_id"] == source]


async def hops_of(context: Context, event_id: str) -> int:
    async with context.database.read() as connection:
        rows = await connection.execute(select(EVENTS.c.hops).where(EVENTS.c.id == event_id))
        return int(rows.scalar_one())


@pytest.mark.parametrize(("sent", "hops"), [(None, 1), ("1, 0", 2), ("4", 5)])
async def test_entry_and_event_have_one_more_hop_than_the_request(
    client: httpx2.AsyncClient, context: Context, source: str, sent: str | None, hops: int
) -> None:
    headers = {} if sent is None else {"X-Hook-Hops": sent}
    stored = (await send(client, source, {}, **headers)).json()
    assert (await client.get(f"/inbox/{stored['id']}")).json()["hops"] == hops
    assert await hops_of(context, stored["event_id"]) == hops


async def test_request_with_too_many_hops_stores_nothing_and_is_reported_once(
    client: httpx2.AsyncClient, context: Context, tenant: str
) -> None:
    source = (await make_source(client, tenant))["id"]
    for _ in range(3):
        answer = await send(client, source, {}, **{"X-Hook-Hops": str(MAX_HOPS)})
        problem = assert_problem(answer, 508, code="too_many_hops")
        assert "it goes round in a loop. Do not send it again" in problem["detail"]
    assert (await client.get("/inbox", params={"source_id": source})).json()["data"] == []
    [event] = await reports(client, source)
    assert event["tenant_id"] == SYSTEM_TENANT
    about = event["data"]
    assert (about["tenant_id"], about["hops"], about["max_hops"]) == (tenant, MAX_HOPS + 1, 5)
    # it can pass one more source, so that it cannot go round itself
    assert await hops_of(context, event["id"]) == MAX_HOPS - 1
    counted = await stats(client, context, source)
    assert (counted["accepted"], counted["rejected"]) == (0, 3)
    assert counted["last_error"].startswith("too_many_hops: ")


@pytest.mark.parametrize("sent", ["1, 9", "9,1", "+9", "9.0", "9;x", "0x9", "9" * 5_000, "x", ""])
async def test_hops_that_cannot_be_read_end_a_loop_as_too_many_do(
    client: httpx2.AsyncClient, source: str, sent: str
) -> None:
    answer = await send(client, source, {}, **{"X-Hook-Hops": sent})
    assert_problem(answer, 508, code="too_many_hops")


async def test_strangers_cannot_cause_a_report(
    client: httpx2.AsyncClient, context: Context, tenant: str
) -> None:
    source = (await make_source(client, tenant))["id"]
    answer = await send(client, source, {}, secret="a stranger's", **{"X-Hook-Hops": "99"})
    assert_problem(answer, 401, code="signature_mismatch")
    assert await reports(client, source) == []

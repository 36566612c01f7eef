"""The content of a stream: every event once and in order, over any number of connections, and no
event of another tenant."""

import asyncio
import random
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest
from sqlalchemy import insert

from api.routes import stream
from api.stream import hub
from hookfast.byte_budget import Claim
from hookfast.clock import rfc3339, utc_now
from hookfast.ids import new_id
from hookfast.storage.feed import feed
from hookfast.storage.feed.cursor import START, Cursor
from hookfast.storage.feed.feed import FeedFilter
from hookfast.storage.retention import retention_runs
from hookfast.storage.tables import Event, RetentionRun
from tests.integration.api.inbound import SECRET, post, signed
from tests.integration.api.stream.conftest import TYPE, Served, ids
from tests.support.api_client import assert_problem

pytestmark = pytest.mark.anyio


async def test_streamed_event_has_the_body_that_a_receiver_gets(served: Served) -> None:
    tenant, key = await served.tenant()
    async with served.stream(key) as stream:
        assert stream.answer.headers["content-type"].startswith("text/event-stream")
        assert stream.answer.headers["cache-control"] == "no-store"
        assert stream.answer.headers["x-content-type-options"] == "nosniff"
        [event_id] = await served.emit(tenant)
        [event] = await stream.events(1)
    assert (event["id"], event["type"], event["tenant_id"]) == (event_id, TYPE, tenant)
    async with served.context.database.read() as connection:
        rows = await connection.execute(Event.__table__.select())
        assert event["body"].encode() == rows.mappings().one()["body"]
    assert (event["payload"], event["content_type"]) == ("full", "application/json")


async def test_stream_has_the_tenants_events_and_broadcasts(served: Served) -> None:
    (one, one_key), (other, other_key) = await served.tenant(), await served.tenant()
    async with (
        served.stream(one_key) as ones,
        served.stream(other_key) as others,
        served.stream() as everything,
        served.stream(tenant_id=other) as seen_by_other,
    ):
        emitted = [*await served.emit(one), *await served.emit(other), *await served.emit(None)]
        emitted += [*await served.emit(one), *await served.emit(other)]
        a, b, c, d, e = emitted
        assert ids(await ones.events(3)) == [a, c, d]
        assert ids(await others.events(3)) == [b, c, e]
        assert ids(await seen_by_other.events(3)) == [b, c, e]
        assert ids(await everything.events(5)) == emitted
    # and as many past events
    async with served.stream(one_key, since=rfc3339(utc_now() - timedelta(hours=1))) as past:
        assert ids(await past.events(3)) == [a, c, d]


@pytest.mark.parametrize("count", [300, pytest.param(1_000, marks=pytest.mark.slow)])
async def test_hundreds_of_events_over_many_connections_arrive_once_in_order(
    served: Served, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    # so few events are queued that the stream falls behind and reads by itself again and again
    monkeypatch.setattr(hub, "_QUEUED_EVENTS", 40)
    tenant, key = await served.tenant()
    _, other_key = await served.tenant()
    dice = random.Random(3)
    read: list[str] = []
    emitted: list[str] = []

    async def emit() -> None:
        while len(emitted) < count:
            whose = None if dice.random() < 0.1 else tenant
            emitted.extend(await served.emit(whose, 25))

    async def follow() -> None:
        last_id = None
        while len(read) < count:
            async with served.stream(key, last_id=last_id, since=start) as stream:
                for _ in range(dice.randrange(1, 120)):
                    message = await stream.next()
                    assert message is not None
                    if message.name == "event":
                        read.append(message.data["id"])
                        if len(read) == count:
                            return
                last_id = stream.last_id

    start = rfc3339(utc_now() - timedelta(minutes=1))
    async with served.stream(other_key) as stranger, served.stream(key) as whole:
        await asyncio.gather(emit(), follow())
        straight = ids(await whole.events(count))
        [everyones] = await served.emit(None)
        seen = await stranger.events(1)
        while seen[-1]["id"] != everyones:
            seen += await stranger.events(1)
    assert read == straight == emitted
    assert all(event["tenant_id"] is None for event in seen)


async def test_event_that_commits_late_is_streamed(served: Served) -> None:
    """An event whose id was created first and whose transaction commits last."""
    tenant, key = await served.tenant()
    now = utc_now()
    row = {
        "id": new_id("evt", now),
        "type": TYPE,
        "tenant_id": tenant,
        "body": b"{}",
        "traceparent": "00",
        "deliveries": 0,
        "created_at": now,
    }
    database = served.context.database
    async with served.stream(key) as stream:
        async with database.write() as connection:
            await connection.execute(insert(Event.__table__), row)
            later = asyncio.create_task(served.emit(tenant))
            if database.kind == "postgresql":  # SQLite's second writer waits for the first
                await later
        emitted = [row["id"], *await later]
        assert ids(await stream.events(2)) == emitted


async def new_source(served: Served, tenant: str, **form: Any) -> str:
    form |= {"tenant_id": tenant, "name": "x", "provider": "github", "secrets": [SECRET]}
    return (await served.operator.post("/sources", json=form)).json()["id"]


async def test_original_request_is_counted_until_its_block_is_made(served: Served) -> None:
    """What a stream sends is counted by itself, so it would count three times while it is sent."""
    tenant, _ = await served.tenant()
    body = b'{"long": "%s"}' % (b"x" * 20_000)
    await post(served.operator, await new_source(served, tenant), signed(body)[0], body)
    async with served.context.database.read() as connection:
        page = await feed.read(connection, FeedFilter(), after=START, limit=9, now=utc_now())
    with (
        served.context.bodies.claim("stream", tenant) as claim,
        patch.object(Claim, "shrink", autospec=True, side_effect=Claim.shrink) as shrunk,
    ):
        async for _ in stream._pieces(served.context, True, page.events, claim):
            assert claim.size == 0
        shrunk.assert_called_once_with(claim, 2 * len(body))


async def test_stream_can_be_filtered_by_patterns_source_and_payload(served: Served) -> None:
    tenant, key = await served.tenant()
    await served.operator.put("/event-types/order.invoice.sent", json={})
    source = await new_source(served, tenant)
    body = b'{"spaced":  1}'
    async with (
        served.stream(key, events=["*.*.sent", "stock.**"]) as sent,
        served.stream(key, source_id=source, payload="raw") as raw,
        served.stream(key, source_id=source) as full,
    ):
        await served.emit(tenant)
        [event_id] = await served.emit(tenant, type="order.invoice.sent")
        headers, _ = signed(body)
        answer = await post(served.operator, source, headers, body)
        assert answer.status_code == 202, answer.text
        assert ids(await sent.events(1)) == [event_id]
        [[as_it_came], [enveloped]] = [await raw.events(1), await full.events(1)]
    assert as_it_came["id"] == enveloped["id"] == answer.json()["event_id"]
    assert as_it_came["source_id"] == source
    assert as_it_came["body"].encode() == body
    assert "x-github-event" in [name.lower() for name, _ in as_it_came["headers"]]
    assert f'"id":"{enveloped["id"]}"' in enveloped["body"]


async def test_data_that_violate_their_schema_are_only_in_a_raw_stream(served: Served) -> None:
    tenant, key = await served.tenant()
    name = f"strict.t{tenant[-8:]}.received"
    operator = served.operator
    await operator.put(f"/event-types/{name}", json={"schema": {"required": ["token"]}})
    source = await new_source(served, tenant, event_types={"**": name})
    endpoint = (
        await operator.post("/endpoints", json={"tenant_id": tenant, "mode": "poll"})
    ).json()
    wanted = {"endpoint_id": endpoint["id"], "events": [name], "payload": "raw"}
    assert (await operator.post("/subscriptions", json=wanted)).status_code == 201
    async with (
        served.stream(key, events=[name]) as full,
        served.stream(key, events=[name], payload="raw") as raw,
    ):
        bodies = [b"not JSON", b'{"token": 1}']
        answers = [await post(operator, source, signed(body)[0], body) for body in bodies]
        sent = [answer.json()["event_id"] for answer in answers]
        assert ids(await full.events(1)) == sent[1:]
        assert [event["body"].encode() for event in await raw.events(2)] == bodies


async def test_stream_starts_after_an_event_and_last_event_id_wins(served: Served) -> None:
    tenant, key = await served.tenant()
    first, second, third = [*await served.emit(tenant, 2), *await served.emit(tenant)]
    async with served.stream(key, after=first) as stream:
        assert ids(await stream.events(2)) == [second, third]
        last_id = stream.last_id
    [fourth] = await served.emit(tenant)
    async with served.stream(key, after=first, last_id=last_id) as stream:
        assert ids(await stream.events(1)) == [fourth]


async def test_deleted_events_are_reported_as_a_gap_and_the_stream_continues(
    served: Served,
) -> None:
    now = utc_now()
    cutoff, seen = now - timedelta(days=2), now - timedelta(days=9)
    run = RetentionRun(id="ret_1", status="done", dry_run=False, workflow_id="", started_at=now)
    async with served.context.database.write() as connection:
        await retention_runs.begin(connection, run, cutoffs={"events": cutoff})
    [event_id] = await served.emit(None)
    async with served.stream(last_id=str(Cursor(0, seen))) as stream:
        gap = await stream.next()
        assert gap is not None
        assert gap.name == "gap"
        assert gap.data["from"][:19] == rfc3339(seen)[:19]
        assert gap.data["to"][:19] == rfc3339(cutoff)[:19]
        assert gap.data["reason"] == "expired"
        assert ids(await stream.events(1)) == [event_id]
        last_id = stream.last_id
    async with served.stream(last_id=last_id) as stream:
        again = await served.emit(None)
        assert ids(await stream.events(1)) == again  # reported once


async def test_stream_hides_other_tenants_events(served: Served) -> None:
    tenant, key = await served.tenant()
    other, _ = await served.tenant()
    [others] = await served.emit(other)
    form = {"tenant_id": other, "name": "x", "provider": "github", "secrets": [SECRET]}
    source = (await served.operator.post("/sources", json=form)).json()["id"]
    async with served.client(await served.key(tenant, "emit")) as emitter:
        assert_problem(await emitter.get("/stream"), 403, code="forbidden")
    async with served.client(key) as client:
        for params, status, code, pointer in (
            ({"tenant_id": other}, 404, "not_found", None),
            ({"source_id": source}, 404, "not_found", None),
            ({"after": others}, 422, "invalid_input", "after"),
            ({"after": new_id("evt")}, 422, "invalid_input", "after"),
            ({"after": "nowhere"}, 422, "invalid_cursor", "after"),
            ({"events": "order."}, 422, "invalid_pattern", "events"),
            ({"payload": "thin"}, 422, "invalid_input", "payload"),
            ({"since": "yesterday"}, 422, "invalid_input", "since"),
        ):
            answer = await client.get("/stream", params=params)
            assert_problem(answer, status, code=code, pointer=pointer)
        for text, code in (("nowhere", "invalid_cursor"), (others, "invalid_input")):
            answer = await client.get("/stream", headers={"Last-Event-ID": text})
            assert_problem(answer, 422, code=code, pointer="Last-Event-ID")

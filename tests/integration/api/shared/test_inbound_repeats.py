"""`POST /in/…` deduplicates: a repeated request or business fact is one event."""

from __future__ import annotations

import asyncio
import hashlib
import uuid

import httpx2
import pytest
from sqlalchemy import text

from api.context.context import Context
from hookfast.storage.database.engine import Database
from hookfast.storage.tables import InboxEntry
from tests.integration.api.inbound import post, send, signed
from tests.integration.api.shared.sources import count, expire, make_source, stats
from tests.support.api_client import MakeEventType, assert_problem

pytestmark = pytest.mark.anyio

PUSH = {"ref": "refs/heads/main", "after": "0f1e", "repository": {"full_name": "acme/storefront"}}


async def test_duplicate_is_counted_and_gets_the_first_response(
    client: httpx2.AsyncClient, context: Context, tenant: str
) -> None:
    source = (await make_source(client, tenant))["id"]
    first, *again = [await send(client, source, {"n": 1}, delivery="one") for _ in range(3)]
    assert (first.status_code, [one.status_code for one in again]) == (202, [200, 200])
    for one in again:
        assert one.json() == first.json() | {"duplicate": True}
    entry = (await client.get(f"/inbox/{first.json()['id']}")).json()
    assert (entry["duplicates"], entry["conflicts"]) == (2, 0)
    assert entry["last_seen_at"] > entry["received_at"]
    counted = await stats(client, context, source)
    assert (counted["accepted"], counted["duplicates"]) == (1, 2)
    assert await count(context, InboxEntry, source_id=source) == 1


@pytest.mark.both_databases
async def test_delivery_id_with_another_body_is_another_event(
    client: httpx2.AsyncClient, context: Context, tenant: str
) -> None:
    """Two hooks of one event at GitHub share its delivery id."""
    source = (await make_source(client, tenant))["id"]
    first, other = [await send(client, source, {"n": n}, delivery="one") for n in (1, 2)]
    assert [first.status_code, other.status_code] == [202, 202]
    assert first.json()["event_id"] != other.json()["event_id"]
    for n, one in ((1, first), (2, other)):
        again = await send(client, source, {"n": n}, delivery="one")
        assert (again.status_code, again.json()) == (200, one.json() | {"duplicate": True})
    listed = await client.get("/inbox", params={"source_id": source, "key": "id:one"})
    assert [row["id"] for row in listed.json()["data"]] == [other.json()["id"], first.json()["id"]]
    assert {row["conflicts"] for row in listed.json()["data"]} == {0}
    counted = await stats(client, context, source)
    assert (counted["accepted"], counted["duplicates"], counted["conflicts"]) == (2, 2, 0)


@pytest.mark.both_databases
async def test_one_delivery_id_with_several_bodies_at_the_same_time_is_one_event_of_each(
    client: httpx2.AsyncClient, context: Context, tenant: str
) -> None:
    source = (await make_source(client, tenant))["id"]
    answers = await asyncio.gather(
        *(send(client, source, {"n": n % 3}, delivery="one") for n in range(12))
    )
    assert sorted(one.status_code for one in answers) == [200] * 9 + [202] * 3
    assert len({one.json()["event_id"] for one in answers}) == 3
    assert await count(context, InboxEntry, source_id=source) == 3


@pytest.mark.both_databases
async def test_duplicate_by_an_expression_with_another_body_records_its_hash(
    client: httpx2.AsyncClient, context: Context, tenant: str
) -> None:
    source = (await make_source(client, tenant, id_expression="id"))["id"]
    bodies = [b'{"id": 1, "sent": 1}', b'{"id": 1, "sent": 2}']
    answers = []
    for body in bodies:
        headers, _ = signed(body)
        del headers["X-GitHub-Delivery"]
        answers.append(await post(client, source, headers, body))
    first, other = answers
    assert other.status_code == 200
    assert other.json()["event_id"] == first.json()["event_id"]
    entry = (await client.get(f"/inbox/{first.json()['id']}")).json()
    assert (entry["duplicates"], entry["conflicts"]) == (1, 1)
    assert entry["payload_sha256"] == hashlib.sha256(bodies[0]).hexdigest()
    assert entry["conflict_sha256"] == hashlib.sha256(bodies[1]).hexdigest()
    assert (await stats(client, context, source))["conflicts"] == 1


async def test_delivery_ids_are_unique_per_source(
    client: httpx2.AsyncClient, source: str, tenant: str
) -> None:
    other = (await make_source(client, tenant))["id"]
    for one in (source, other):
        assert (await send(client, one, {}, delivery="of both")).status_code == 202


async def test_without_a_delivery_id_the_hash_of_the_body_identifies_duplicates(
    client: httpx2.AsyncClient, tenant: str
) -> None:
    source = (await make_source(client, tenant))["id"]
    statuses = []
    for n in (1, 1, 2):
        headers, body = signed({"n": n})
        del headers["X-GitHub-Delivery"]
        statuses.append((await post(client, source, headers, body)).status_code)
    assert statuses == [202, 200, 202]


async def test_id_expression_provides_the_delivery_id(
    client: httpx2.AsyncClient, tenant: str
) -> None:
    source = (await make_source(client, tenant, id_expression="order.id"))["id"]
    statuses = []
    for payload in ({"order": {"id": "a"}, "n": 1}, {"order": {"id": "a"}, "n": 2}):
        headers, body = signed(payload)
        del headers["X-GitHub-Delivery"]
        statuses.append((await post(client, source, headers, body)).status_code)
    assert statuses == [202, 200]


async def test_expired_delivery_id_counts_as_new(
    client: httpx2.AsyncClient, context: Context, tenant: str
) -> None:
    source = (await make_source(client, tenant))["id"]
    first = await send(client, source, {}, delivery="old")
    await expire(context, source)
    second = await send(client, source, {}, delivery="old")
    assert second.status_code == 202
    assert second.json()["id"] != first.json()["id"]


async def test_webhook_that_waits_too_long_gets_503_and_its_retry_is_one_event(
    client: httpx2.AsyncClient, context: Context, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = (await make_source(client, tenant))["id"]
    await send(client, source, {}, delivery="first")  # the source is cached from here on
    monkeypatch.setattr(context.inbox._group, "_patience", 0.2)
    async with Database(context.database.url) as others, others.write() as connection:
        locks = {"postgresql": "LOCK TABLE inbox_keys", "sqlite": "SELECT 1"}  # its only writer
        await connection.execute(text(locks[others.kind]))
        busy = await send(client, source, {}, delivery="second")
    assert_problem(busy, 503, code="unavailable")
    assert int(busy.headers["Retry-After"]) > 0
    monkeypatch.undo()
    again = await send(client, source, {}, delivery="second")
    assert again.status_code in (200, 202)  # the first may or may not have been committed
    assert await count(context, InboxEntry, source_id=source) == 2
    counted = await stats(client, context, source)
    assert (counted["accepted"], counted["rejected"]) == (2, 0)


async def test_business_fact_is_emitted_once_in_its_window(
    client: httpx2.AsyncClient, context: Context, tenant: str
) -> None:
    source = (await make_source(client, tenant, idempotency={"window_seconds": 60}))["id"]
    first = (await send(client, source, PUSH)).json()
    second = await send(client, source, PUSH, delivery="second")
    assert second.status_code == 202
    suppressed = second.json()
    assert (suppressed["status"], suppressed["event_id"]) == ("suppressed", None)
    assert suppressed["suppressed_by"] == first["id"]
    again = await send(client, source, PUSH, delivery="second")
    assert (again.status_code, again.json()["suppressed_by"]) == (200, first["id"])
    # another commit, and a push without a commit, are other facts
    for payload in (PUSH | {"after": "2f3e"}, {"ref": "x"}, {"ref": "x"}):
        assert (await send(client, source, payload)).json()["status"] == "accepted"

    listed = (
        await client.get("/inbox", params={"source_id": source, "status": "suppressed"})
    ).json()
    assert [row["id"] for row in listed["data"]] == [suppressed["id"]]
    assert (await stats(client, context, source))["suppressed"] == 1
    await expire(context, source)
    assert (await send(client, source, PUSH)).json()["status"] == "accepted"


async def test_failed_entry_suppresses_no_others_until_it_is_emitted(
    client: httpx2.AsyncClient, tenant: str, make_event_type: MakeEventType
) -> None:
    name = f"strict.thing_{uuid.uuid4().hex[:8]}.made"
    await make_event_type(name, schema=False)
    source = (await make_source(client, tenant, event_types={"github.**": name}, idempotency={}))[
        "id"
    ]
    failed = [(await send(client, source, PUSH)).json() for _ in range(2)]
    assert [one["status"] for one in failed] == ["failed", "failed"]
    await make_event_type(name, schema=True)
    retried = [(await client.post(f"/inbox/{one['id']}/retry")).json() for one in failed]
    assert [one["status"] for one in retried] == ["accepted", "suppressed"]
    assert retried[1]["suppressed_by"] == failed[0]["id"]

"""`POST /in/…`: the events that requests become, with their types and data."""

from __future__ import annotations

import json
import uuid
from contextlib import ExitStack
from urllib.parse import quote_plus

import httpx2
import pytest
from sqlalchemy import insert, select

from api.context.context import Context
from hookfast.storage.inbox.sources import MAX_EVENT_TYPES
from hookfast.storage.tables import Event, InboxKey, Source, SourceEventType
from tests.integration.api.inbound import post, send, signed
from tests.integration.api.shared.sources import count, make_source, stats
from tests.support.api_client import MakeEventType, assert_problem

pytestmark = pytest.mark.anyio


async def test_new_webhook_becomes_an_event_with_its_exact_data(
    client: httpx2.AsyncClient, source: str, tenant: str
) -> None:
    body = b'\n{"n": 1.50,\t"s": "\\u00df\xc3\x9f", "action" : "opened"} \n'
    answer = await send(client, source, body, event="pull_request")
    assert answer.status_code == 202, answer.text
    taken = answer.json()
    assert taken["event_type"] == "github.pull_request.opened"
    assert (taken["status"], taken["duplicate"], taken["suppressed_by"]) == (
        "accepted",
        False,
        None,
    )
    event = await client.get(f"/events/{taken['event_id']}")
    assert event.json()["tenant_id"] == tenant
    assert body.strip().decode() in event.text


async def test_unregistered_event_type_is_registered_by_its_first_webhook(
    client: httpx2.AsyncClient, source: str
) -> None:
    event = f"thing_{uuid.uuid4().hex[:8]}"
    answer = await send(client, source, {}, event=event)
    name = answer.json()["event_type"]
    assert name == f"github.{event}.received"
    registered = (await client.get(f"/event-types/{name}")).json()
    assert registered["description"] == "From github."
    # event types registered by people stay unchanged
    await client.put(f"/event-types/{name}", json={"description": "Ours"})
    await send(client, source, {}, event=event)
    assert (await client.get(f"/event-types/{name}")).json()["description"] == "Ours"


async def test_source_renames_event_types(client: httpx2.AsyncClient, tenant: str) -> None:
    names = {"github.**": "code.other.seen", "github.push.*": "code.branch.pushed"}
    source = (await make_source(client, tenant, event_types=names))["id"]
    seen = [
        (await send(client, source, {}, event=event)).json()["event_type"]
        for event in ("push", "fork")
    ]
    assert seen == ["code.branch.pushed", "code.other.seen"]


async def test_source_with_too_many_event_types_shares_one_for_the_rest(
    client: httpx2.AsyncClient, context: Context, tenant: str
) -> None:
    source = (await make_source(client, tenant))["id"]
    known = (await send(client, source, {}, event="known")).json()["event_type"]
    async with context.database.write() as connection:
        await connection.execute(
            insert(SourceEventType.__table__),
            [{"source_id": source, "name": f"github.n.n{n}"} for n in range(MAX_EVENT_TYPES - 1)],
        )
    event = f"new_{uuid.uuid4().hex[:8]}"
    for name, given in (("github.other.received", event), (known, "known")):
        assert (await send(client, source, {}, event=given)).json()["event_type"] == name
    assert (await client.get(f"/event-types/github.{event}.received")).status_code == 404


async def test_source_with_half_of_all_requests_in_progress_gets_503(
    client: httpx2.AsyncClient, context: Context, source: str, tenant: str
) -> None:
    other = (await make_source(client, tenant))["id"]
    with ExitStack() as stack:
        while stack.enter_context(context.inbound_slots.enter(source)):
            pass
        refused = await send(client, source, {})
        assert_problem(refused, 503, code="overloaded")
        assert refused.headers["retry-after"] == "1"
        assert (await send(client, other, {})).status_code == 202
    assert (await send(client, source, {})).status_code == 202


async def test_webhook_whose_schema_check_times_out_is_kept_as_failed(
    client: httpx2.AsyncClient,
    tenant: str,
    make_event_type: MakeEventType,
) -> None:
    name = f"slow.thing_{uuid.uuid4().hex[:8]}.made"
    await make_event_type(name, schema={"properties": {"a": {"pattern": r"(a*)\1b"}}})
    source = (await make_source(client, tenant, event_types={"github.**": name}))["id"]
    answer = await send(client, source, {"a": "a" * 60_000}, delivery="one")
    assert (answer.status_code, answer.json()["status"]) == (202, "failed")
    path = f"/inbox/{answer.json()['id']}"
    entry = (await client.get(path)).json()
    assert entry["last_error"].startswith("schema_too_slow: /data ")
    assert_problem(await client.post(f"{path}/retry"), 422, code="schema_too_slow")
    await make_event_type(name, schema={"properties": {"a": {"type": "string"}}})
    assert (await client.post(f"{path}/retry")).json()["status"] == "accepted"


async def test_webhook_that_violates_the_schema_is_kept_and_can_be_retried(
    client: httpx2.AsyncClient,
    context: Context,
    tenant: str,
    make_event_type: MakeEventType,
) -> None:
    name = f"strict.thing_{uuid.uuid4().hex[:8]}.made"
    await make_event_type(name, schema={"required": ["token"]})
    source = (await make_source(client, tenant, event_types={"github.**": name}))["id"]
    answer = await send(client, source, {"hush": 1}, delivery="one")
    assert answer.status_code == 202, answer.text
    assert (answer.json()["status"], answer.json()["event_id"]) == ("failed", None)
    path = f"/inbox/{answer.json()['id']}"
    entry = (await client.get(path)).json()
    assert entry["last_error"].startswith("schema_violation: /data ")
    assert "hush" not in entry["last_error"]
    again = await send(client, source, {"hush": 1}, delivery="one")
    assert (again.status_code, again.json()["status"]) == (200, "failed")

    refused = await client.post(f"{path}/retry")
    assert_problem(refused, 422, code="schema_violation", pointer="/data")
    await make_event_type(name, schema={"required": ["hush"]})
    entry = (await client.post(f"{path}/retry")).json()
    assert (entry["status"], entry["last_error"]) == ("accepted", None)
    event = (await client.get(f"/events/{entry['event_id']}")).json()
    assert (event["type"], event["data"]) == (name, {"hush": 1})
    assert_problem(await client.post(f"{path}/retry"), 409, code="not_failed")
    again = await send(client, source, {"hush": 1}, delivery="one")
    assert again.json()["event_id"] == event["id"]
    counted = await stats(client, context, source)
    assert (counted["accepted"], counted["failed"], counted["duplicates"]) == (1, 0, 2)


async def test_webhook_may_be_larger_than_an_emitted_event(
    client: httpx2.AsyncClient, context: Context, source: str
) -> None:
    payload = {"pad": "x" * (context.settings.max_event_bytes + 1)}
    answer = await send(client, source, payload)
    assert answer.status_code == 202, answer.text
    assert (await client.get(f"/events/{answer.json()['event_id']}")).json()["data"] == payload


async def test_form_body_becomes_an_event_with_its_fields(
    client: httpx2.AsyncClient, source: str
) -> None:
    body = f"payload={quote_plus(json.dumps({'action': 'opened', 's': 'ß'}))}".encode()
    headers, _ = signed(body, event="issues")
    headers["Content-Type"] = "application/x-www-form-urlencoded"
    answer = await post(client, source, headers, body)
    event = (await client.get(f"/events/{answer.json()['event_id']}")).json()
    assert event["data"] == {"action": "opened", "s": "ß"}
    assert event["inbox_id"] == answer.json()["id"]
    [listed] = (await client.get("/events", params={"limit": 1})).json()["data"]
    assert (listed["id"], listed["inbox_id"]) == (event["id"], event["inbox_id"])


async def test_entry_key_and_event_are_committed_in_one_transaction(
    client: httpx2.AsyncClient, context: Context, tenant: str
) -> None:
    source = (await make_source(client, tenant))["id"]
    taken = (await send(client, source, {})).json()
    async with context.database.read() as connection:
        events = Event.__table__
        inbox_id = await connection.scalar(
            select(events.c.inbox_id).where(events.c.id == taken["event_id"])
        )
    assert inbox_id == taken["id"]
    assert await count(context, InboxKey, inbox_id=taken["id"]) == 1
    assert await count(context, Source, id=source) == 1


async def test_event_of_a_webhook_passes_the_filters_of_subscriptions(
    client: httpx2.AsyncClient, source: str, tenant: str
) -> None:
    form = {"tenant_id": tenant, "url": "http://127.0.0.1:4/", "verification": "none"}
    endpoint = (await client.post("/endpoints", json=form)).json()["id"]
    made = {"endpoint_id": endpoint, "events": ["github.filtered.**"], "filter": {"n": {"$gt": 1}}}
    assert (await client.post("/subscriptions", json=made)).status_code == 201
    counts = []
    for number in (1, 2):
        taken = (await send(client, source, {"n": number}, event="filtered")).json()
        event = (await client.get(f"/events/{taken['event_id']}")).json()
        counts.append(event["deliveries"])
    assert counts == [0, 1]

"""`POST /in/…`: each answer it has, what is asked first, and what a request becomes."""

from __future__ import annotations

import hashlib
import json
import uuid
from datetime import timedelta
from typing import Any
from urllib.parse import quote_plus

import httpx2
import pytest
from sqlalchemy import func, insert, select, text, update

from api import source_cache
from api.context import Context
from hookfast.clock import utc_now
from hookfast.inbox import provider
from hookfast.inbox.provider import Unsigned
from hookfast.inbox.samples import sample
from hookfast.source_secrets import sealed_secrets
from hookfast.storage import schema_checks, sources
from hookfast.storage.engine import Database
from hookfast.storage.inbox_tables import InboxEntry, InboxKey, Source, SourceEventType
from hookfast.storage.sources import MAX_EVENT_TYPES
from hookfast.storage.tables import Event
from tests.api_client import Json, Make, MakeEventType, assert_problem
from tests.integration.api.inbound import SECRET, post, send, signed

pytestmark = pytest.mark.anyio

PUSH = {"ref": "refs/heads/main", "after": "0f1e", "repository": {"full_name": "acme/storefront"}}


@pytest.fixture(scope="session")
async def tenant(make_tenant: Make) -> str:
    return str((await make_tenant())["id"])


async def make_source(client: httpx2.AsyncClient, tenant: str, **members: Any) -> Json:
    form = {"tenant_id": tenant, "name": "x", "provider": "github", "secrets": [SECRET]}
    answer = await client.post("/sources", json=form | members)
    assert answer.status_code == 201, answer.text
    document: Json = answer.json()
    return document


@pytest.fixture(scope="session")
async def source(client: httpx2.AsyncClient, tenant: str) -> str:
    """A source of GitHub's that nobody changes."""
    return str((await make_source(client, tenant))["id"])


async def stats(client: httpx2.AsyncClient, context: Context, source: str) -> Json:
    await context.refusals.write()
    document: Json = (await client.get(f"/sources/{source}/stats")).json()
    return document


async def count(context: Context, table: Any, **where: Any) -> int:
    async with context.database.read() as connection:
        statement = select(func.count()).select_from(table.__table__)
        for name, value in where.items():
            statement = statement.where(table.__table__.c[name] == value)
        return await connection.scalar(statement) or 0


# -- new, and again


async def test_what_is_new_is_an_event_with_its_data_byte_for_byte(
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


async def test_what_came_before_is_counted_and_answered_alike(
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


async def test_the_same_id_with_other_bytes_is_a_duplicate_that_leaves_its_hash(
    client: httpx2.AsyncClient, context: Context, tenant: str
) -> None:
    source = (await make_source(client, tenant))["id"]
    first = await send(client, source, {"n": 1}, delivery="one")
    other = await send(client, source, {"n": 2}, delivery="one")
    assert other.status_code == 200
    assert other.json()["event_id"] == first.json()["event_id"]
    entry = (await client.get(f"/inbox/{first.json()['id']}")).json()
    assert (entry["duplicates"], entry["conflicts"]) == (1, 1)
    assert entry["conflict_sha256"] == hashlib.sha256(b'{"n": 2}').hexdigest()
    assert entry["payload_sha256"] == hashlib.sha256(b'{"n": 1}').hexdigest()
    assert (await stats(client, context, source))["conflicts"] == 1


async def test_an_id_counts_for_its_source_alone(
    client: httpx2.AsyncClient, source: str, tenant: str
) -> None:
    other = (await make_source(client, tenant))["id"]
    for one in (source, other):
        assert (await send(client, one, {}, delivery="of both")).status_code == 202


async def test_without_an_id_the_body_is_its_own(client: httpx2.AsyncClient, tenant: str) -> None:
    source = (await make_source(client, tenant))["id"]
    statuses = []
    for n in (1, 1, 2):
        headers, body = signed({"n": n})
        del headers["X-GitHub-Delivery"]
        statuses.append((await post(client, source, headers, body)).status_code)
    assert statuses == [202, 200, 202]


async def test_an_expression_names_the_id_where_the_provider_names_none(
    client: httpx2.AsyncClient, tenant: str
) -> None:
    source = (await make_source(client, tenant, id_expression="order.id"))["id"]
    statuses = []
    for payload in ({"order": {"id": "a"}, "n": 1}, {"order": {"id": "a"}, "n": 2}):
        headers, body = signed(payload)
        del headers["X-GitHub-Delivery"]
        statuses.append((await post(client, source, headers, body)).status_code)
    assert statuses == [202, 200]


async def test_an_id_that_has_run_out_is_new_again(
    client: httpx2.AsyncClient, context: Context, tenant: str
) -> None:
    source = (await make_source(client, tenant))["id"]
    first = await send(client, source, {}, delivery="old")
    await expire(context, source)
    second = await send(client, source, {}, delivery="old")
    assert second.status_code == 202
    assert second.json()["id"] != first.json()["id"]


async def expire(context: Context, source: str) -> None:
    """Let every key of a source have run out a moment ago."""
    table = InboxKey.__table__
    past = utc_now() - timedelta(seconds=1)
    async with context.database.write() as connection:
        changing = update(table).where(table.c.source_id == source).values(expires_at=past)
        await connection.execute(changing)


async def test_what_waits_too_long_is_told_to_come_again_and_is_one_event_then(
    client: httpx2.AsyncClient, context: Context, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = (await make_source(client, tenant))["id"]
    await send(client, source, {}, delivery="first")  # the source is known from here on
    monkeypatch.setattr(context.inbox._group, "_patience", 0.2)
    async with Database(context.database.url) as others, others.write() as connection:
        locks = {"postgresql": "LOCK TABLE inbox_keys", "sqlite": "SELECT 1"}  # the one writer
        await connection.execute(text(locks[others.kind]))
        busy = await send(client, source, {}, delivery="second")
    assert_problem(busy, 503, code="unavailable")
    assert int(busy.headers["Retry-After"]) > 0
    monkeypatch.undo()
    again = await send(client, source, {}, delivery="second")
    assert again.status_code in (200, 202)  # whether the first one was committed, nobody was told
    assert await count(context, InboxEntry, source_id=source) == 2
    counted = await stats(client, context, source)
    assert (counted["accepted"], counted["rejected"]) == (2, 0)


# -- what is asked, and in which order


async def test_each_check_comes_before_those_that_cost_or_tell_more(
    client: httpx2.AsyncClient, context: Context, tenant: str
) -> None:
    source = (await make_source(client, tenant, active=False, allowed_networks=["192.0.2.0/24"]))[
        "id"
    ]
    too_large = b"{" + b" " * context.settings.max_inbox_bytes
    headers, _ = signed(too_large, secret="not this")
    headers["Content-Type"] = "text/plain"

    async def refused(status: int, code: str, body: bytes) -> None:
        assert_problem(await post(client, source, headers, body), status, code=code)

    async def mend(**members: Any) -> None:
        assert (await client.patch(f"/sources/{source}", json=members)).status_code == 200

    await refused(404, "unknown_source", too_large)
    await mend(active=True)
    await refused(403, "caller_not_allowed", too_large)
    await mend(allowed_networks=["127.0.0.0/8"])
    await refused(415, "unsupported_content_type", too_large)
    headers["Content-Type"] = "application/json; charset=utf-8"
    await refused(413, "too_large", too_large)
    await refused(401, "signature_mismatch", b"{")
    headers = signed(b"{")[0]
    await refused(400, "unreadable_payload", b"{")
    headers, body = signed(b"{}")
    assert (await post(client, source, headers, body)).status_code == 202

    counted = await stats(client, context, source)
    assert (counted["accepted"], counted["rejected"]) == (1, 5)  # a 404 is no source's
    assert counted["last_error"].startswith("unreadable_payload: ")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"X-Hub-Signature-256": None}, "signature_missing"),
        ({"X-Hub-Signature-256": "sha256=0"}, "signature_malformed"),
        ({"X-Hub-Signature-256": None, "X-Hub-Signature": "sha1=0"}, "signature_not_accepted"),
    ],
)
async def test_a_signature_that_proves_nothing_is_401(
    client: httpx2.AsyncClient, source: str, change: dict[str, str | None], code: str
) -> None:
    headers, body = signed({})
    merged = {name: text for name, text in (headers | change).items() if text is not None}
    answer = await post(client, source, merged, body)
    assert_problem(answer, 401, code=code)
    assert answer.headers["WWW-Authenticate"].startswith("Signature")


async def test_a_replayed_request_is_401_once_its_time_is_past(
    client: httpx2.AsyncClient, tenant: str
) -> None:
    slack = provider("slack")
    source = (await make_source(client, tenant, provider="slack"))["id"]
    for seconds, status in ((0, 202), (400, 401)):
        request = sample(
            "slack.app_mention",
            provider=slack,
            secret=SECRET,
            now=utc_now() - timedelta(seconds=seconds),
            url="",
        )
        answer = await post(client, source, dict(request.headers), request.body)
        assert answer.status_code == status, answer.text
    assert_problem(answer, 401, code="timestamp_out_of_tolerance")


async def change_elsewhere(context: Context, source_id: str, changes: dict[str, Any]) -> None:
    """Change a source as another process would: nobody here is told."""
    async with context.database.write() as connection:
        await sources.change(connection, source_id, changes)


@pytest.mark.parametrize("renewed_seconds", [0, 3600])
async def test_a_secret_of_now_is_believed_though_another_process_rotated_it(
    client: httpx2.AsyncClient,
    context: Context,
    tenant: str,
    monkeypatch: pytest.MonkeyPatch,
    renewed_seconds: float,
) -> None:
    monkeypatch.setattr(source_cache, "FRESH_SECONDS", 3600)
    monkeypatch.setattr(source_cache, "RENEWED_SECONDS", renewed_seconds)
    source = (await make_source(client, tenant))["id"]
    assert (await send(client, source, {})).status_code == 202
    new = "the-secret-of-another-process"
    secrets = sealed_secrets([new], context.keyring, source_id=source, at=utc_now())
    await change_elsewhere(context, source, {"secrets": secrets})
    answer = await send(client, source, {}, secret=new)
    if renewed_seconds:  # no more look-ups than that, whoever sends wrong signatures
        assert_problem(answer, 401, code="signature_mismatch")
    else:
        assert answer.status_code == 202, answer.text
        assert (await send(client, source, {})).status_code == 401


async def test_what_another_process_allowed_is_allowed_at_once_and_no_more_than_that(
    client: httpx2.AsyncClient, context: Context, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_cache, "FRESH_SECONDS", 3600)
    monkeypatch.setattr(source_cache, "RENEWED_SECONDS", 0)
    source = (await make_source(client, tenant, allowed_networks=["10.0.0.0/8"]))["id"]
    assert_problem(await send(client, source, {}), 403, code="caller_not_allowed")
    await change_elsewhere(context, source, {"allowed_networks": []})
    assert (await send(client, source, {})).status_code == 202
    # a wrong signature is judged by all that holds now
    await change_elsewhere(context, source, {"allowed_networks": ["10.0.0.0/8"]})
    answer = await send(client, source, {}, secret="wrong" * 4)
    assert_problem(answer, 403, code="caller_not_allowed")
    await change_elsewhere(context, source, {"active": False})
    assert_problem(await send(client, source, {}), 404, code="unknown_source")


async def test_what_is_not_there_is_not_told_apart(client: httpx2.AsyncClient, tenant: str) -> None:
    inactive = (await make_source(client, tenant, active=False))["id"]
    deleted = (await make_source(client, tenant))["id"]
    assert (await send(client, deleted, {})).status_code == 202
    assert (await client.delete(f"/sources/{deleted}")).status_code == 204
    headers, body = signed({}, **{"X-Request-Id": "the-same"})
    answers = [
        await post(client, one, headers, body)
        for one in (inactive, deleted, "src_" + "0" * 32, "src_1", "x" * 300)
    ]
    assert {answer.status_code for answer in answers} == {404}
    assert len({answer.text for answer in answers}) == 1


async def test_an_api_key_is_no_signature(client: httpx2.AsyncClient, source: str) -> None:
    answer = await client.post(client.base_url.join(f"/in/{source}"), json={})
    assert_problem(answer, 401, code="signature_missing")


async def test_other_methods_are_405(client: httpx2.AsyncClient, source: str) -> None:
    url = client.base_url.join(f"/in/{source}")
    for method in ("GET", "PUT", "DELETE"):
        assert (await client.request(method, url)).status_code == 405


async def test_slacks_challenge_is_answered_once_it_is_verified_and_is_no_event(
    client: httpx2.AsyncClient, context: Context, tenant: str
) -> None:
    slack = provider("slack")
    source = (await make_source(client, tenant, provider="slack"))["id"]
    request = sample("slack.app_mention", provider=slack, secret=SECRET, now=utc_now(), url="")
    body = json.dumps({"type": "url_verification", "challenge": "3eZb"}).encode()
    unsigned = await post(client, source, dict(request.headers), body)
    assert_problem(unsigned, 401, code="signature_mismatch")
    headers = slack.sign(
        Unsigned(body=body, content_type="application/json", url="", id="1", at=utc_now()),
        secret=SECRET,
    )
    answer = await post(client, source, headers | {"Content-Type": "application/json"}, body)
    assert (answer.status_code, answer.json()) == (200, {"challenge": "3eZb"})
    assert await count(context, InboxEntry, source_id=source) == 0


async def test_twilio_signs_the_address_it_called(client: httpx2.AsyncClient, tenant: str) -> None:
    source = (await make_source(client, tenant, provider="twilio"))["id"]
    url = str(client.base_url.join(f"/in/{source}"))
    for called, status in ((url, 200), (url + "x", 401)):
        request = sample(
            "twilio.message.delivered",
            provider=provider("twilio"),
            secret=SECRET,
            now=utc_now(),
            url=called,
        )
        answer = await post(client, source, dict(request.headers), request.body)
        assert answer.status_code == status, answer.text


@pytest.mark.parametrize(
    ("name", "content_type", "body"),
    [
        ("slack.slash_command.deploy", None, ""),
        ("twilio.call.completed", "text/xml", "<Response/>"),
    ],
)
async def test_who_acts_on_the_answer_hears_nothing_to_act_on(
    client: httpx2.AsyncClient,
    tenant: str,
    name: str,
    content_type: str | None,
    body: str,
) -> None:
    used = name.partition(".")[0]
    source = (await make_source(client, tenant, provider=used))["id"]
    url = str(client.base_url.join(f"/in/{source}"))
    request = sample(name, provider=provider(used), secret=SECRET, now=utc_now(), url=url)
    first, again = [
        await post(client, source, dict(request.headers), request.body) for _ in range(2)
    ]
    for answer in (first, again):
        assert answer.status_code == 200
        assert answer.text.endswith(body)
        assert answer.text.removesuffix(body) in ("", '<?xml version="1.0" encoding="UTF-8"?>')
        assert (answer.headers.get("Content-Type") or "").partition(";")[0] == (content_type or "")
    entry = (await client.get(f"/inbox/{first.headers['X-Hookfast-Inbox-Id']}")).json()
    assert entry["event_id"] == first.headers["X-Hookfast-Event-Id"]
    assert entry["duplicates"] == 1
    assert again.headers["X-Hookfast-Inbox-Id"] == entry["id"]


# -- event types


async def test_a_type_nobody_registered_is_registered_by_what_comes_in(
    client: httpx2.AsyncClient, source: str
) -> None:
    event = f"thing_{uuid.uuid4().hex[:8]}"
    answer = await send(client, source, {}, event=event)
    name = answer.json()["event_type"]
    assert name == f"github.{event}.received"
    registered = (await client.get(f"/event-types/{name}")).json()
    assert registered["description"] == "From github."
    # and what is registered by people stays theirs
    await client.put(f"/event-types/{name}", json={"description": "Ours"})
    await send(client, source, {}, event=event)
    assert (await client.get(f"/event-types/{name}")).json()["description"] == "Ours"


async def test_a_source_gives_its_events_other_names(
    client: httpx2.AsyncClient, tenant: str
) -> None:
    names = {"github.**": "code.other.seen", "github.push.*": "code.branch.pushed"}
    source = (await make_source(client, tenant, event_types=names))["id"]
    seen = [
        (await send(client, source, {}, event=event)).json()["event_type"]
        for event in ("push", "fork")
    ]
    assert seen == ["code.branch.pushed", "code.other.seen"]


async def test_a_source_that_makes_up_ever_more_types_gets_one_for_the_rest(
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


# -- schemas


async def test_what_takes_too_long_to_check_is_kept_and_says_so(
    client: httpx2.AsyncClient,
    tenant: str,
    make_event_type: MakeEventType,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(schema_checks, "EVENT_SECONDS", 0.1)
    name = f"slow.thing_{uuid.uuid4().hex[:8]}.made"
    await make_event_type(name, schema={"properties": {"a": {"pattern": "[^@]+[@!][^@]+"}}})
    source = (await make_source(client, tenant, event_types={"github.**": name}))["id"]
    answer = await send(client, source, {"a": "a" * 60_000}, delivery="one")
    assert (answer.status_code, answer.json()["status"]) == (202, "failed")
    path = f"/inbox/{answer.json()['id']}"
    entry = (await client.get(path)).json()
    assert entry["last_error"].startswith("schema_too_slow: /data ")
    assert_problem(await client.post(f"{path}/retry"), 422, code="schema_too_slow")
    await make_event_type(name, schema={"properties": {"a": {"type": "string"}}})
    assert (await client.post(f"{path}/retry")).json()["status"] == "accepted"


async def test_what_a_schema_refuses_is_kept_and_can_be_tried_again(
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


# -- business facts


async def test_a_business_fact_is_emitted_once_in_its_window(
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
    # another commit, and a push without one, are facts of their own
    for payload in (PUSH | {"after": "2f3e"}, {"ref": "x"}, {"ref": "x"}):
        assert (await send(client, source, payload)).json()["status"] == "accepted"

    listed = (
        await client.get("/inbox", params={"source_id": source, "status": "suppressed"})
    ).json()
    assert [row["id"] for row in listed["data"]] == [suppressed["id"]]
    assert (await stats(client, context, source))["suppressed"] == 1
    await expire(context, source)
    assert (await send(client, source, PUSH)).json()["status"] == "accepted"


async def test_what_failed_stands_for_no_fact_until_it_is_emitted(
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


# -- what is kept, and shown


async def test_no_credential_and_no_signature_is_kept(
    client: httpx2.AsyncClient, tenant: str
) -> None:
    source = (await make_source(client, tenant, provider="gitlab"))["id"]
    headers = {
        "Content-Type": "application/json",
        "X-Gitlab-Token": SECRET,
        "X-Gitlab-Event": "Push Hook",
        "Authorization": "Bearer hush",
        "Cookie": "hush=1",
        "X-Api-Key": "hush",
    }
    answer = await post(client, source, headers, b'{"object_kind": "push"}')
    assert answer.status_code == 202, answer.text
    shown = await client.get(f"/inbox/{answer.json()['id']}")
    assert shown.json()["headers"] == [["x-gitlab-event", "Push Hook"]]
    assert "hush" not in shown.text
    assert SECRET not in shown.text


async def test_a_body_is_a_download_that_no_browser_shows(
    client: httpx2.AsyncClient, source: str
) -> None:
    body = b'{"html": "<script>alert(1)</script>"}'
    entry = (await send(client, source, body)).json()["id"]
    answer = await client.get(f"/inbox/{entry}/body")
    assert answer.content == body
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == f'attachment; filename="{entry}.bin"'
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-store"


async def test_the_list_is_newest_first_in_pages_and_filters_add_up(
    client: httpx2.AsyncClient, tenant: str
) -> None:
    source = (await make_source(client, tenant))["id"]
    ids = []
    for n, event in enumerate(["push", "push", "fork"]):
        ids.append(
            (await send(client, source, {"n": n}, event=event, delivery=f"d{n}")).json()["id"]
        )

    async def listed(**params: Any) -> list[str]:
        answer = await client.get("/inbox", params={"source_id": source} | params)
        assert answer.status_code == 200, answer.text
        return [row["id"] for row in answer.json()["data"]]

    assert await listed() == ids[::-1]
    assert await listed(tenant_id=tenant, status="accepted") == ids[::-1]
    assert await listed(event_type="github.push.received") == ids[1::-1]
    assert await listed(status="failed") == []
    assert await listed(key="id:d1") == [ids[1]]
    assert await listed(key="id:d1", event_type="github.fork.received") == []
    assert await listed(key="id:none") == []
    first = (await client.get("/inbox", params={"source_id": source, "limit": 2})).json()
    more = {"limit": 2, "cursor": first["next_cursor"]}
    assert [row["id"] for row in first["data"]] + await listed(**more) == ids[::-1]
    assert_problem(
        await client.get("/inbox", params={"key": "id:d1"}),
        422,
        code="invalid_input",
        pointer="key",
    )


async def test_a_large_body_becomes_an_event_although_it_is_larger_than_one_may_emit(
    client: httpx2.AsyncClient, context: Context, source: str
) -> None:
    payload = {"pad": "x" * (context.settings.max_event_bytes + 1)}
    answer = await send(client, source, payload)
    assert answer.status_code == 202, answer.text
    assert (await client.get(f"/events/{answer.json()['event_id']}")).json()["data"] == payload


async def test_a_form_is_an_event_of_what_is_in_it(client: httpx2.AsyncClient, source: str) -> None:
    body = f"payload={quote_plus(json.dumps({'action': 'opened', 's': 'ß'}))}".encode()
    headers, _ = signed(body, event="issues")
    headers["Content-Type"] = "application/x-www-form-urlencoded"
    answer = await post(client, source, headers, body)
    event = (await client.get(f"/events/{answer.json()['event_id']}")).json()
    assert event["data"] == {"action": "opened", "s": "ß"}
    assert event["inbox_id"] == answer.json()["id"]
    [listed] = (await client.get("/events", params={"limit": 1})).json()["data"]
    assert (listed["id"], listed["inbox_id"]) == (event["id"], event["inbox_id"])


async def test_the_event_the_key_and_the_entry_are_of_one_transaction(
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

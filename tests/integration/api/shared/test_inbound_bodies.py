"""`POST /in/…` makes an event of every verified request, whatever its body is: a provider sends it
once, and switches off a webhook that gets errors."""

from __future__ import annotations

import base64
import json
import uuid
from typing import Any

import httpx2
import pytest

from tests.integration.api.inbound import SECRET, post, send, signed
from tests.integration.api.shared.sources import make_source
from tests.support.api_client import Json, Make, MakeEventType, assert_problem, maker

pytestmark = pytest.mark.anyio

FORM = "application/x-www-form-urlencoded"
HUGE = "9" * 5_000
STYLES: dict[str, dict[str, Any]] = {
    "raw": {"payload": "raw"},
    "full": {"payload": "full"},
    "mapped": {"payload": "mapped", "mapping": "{data: data}"},
    "filtered": {"payload": "full", "filter": {"$not": {"id": "other"}}},
}


async def make_consumers(
    client: httpx2.AsyncClient, tenant: str, event_type: str
) -> dict[str, str]:
    """Return a polled endpoint for each style in which a subscriber gets an event."""
    consumers = {}
    make_subscription = maker(client, "/subscriptions")
    for style, members in STYLES.items():
        answer = await client.post("/endpoints", json={"tenant_id": tenant, "mode": "poll"})
        consumers[style] = answer.json()["id"]
        await make_subscription(endpoint_id=consumers[style], events=[event_type], **members)
    return consumers


async def polled(client: httpx2.AsyncClient, endpoint: str, event_id: str) -> list[Json]:
    """Return the items of an event that wait for the endpoint."""
    answer = await client.get(f"/endpoints/{endpoint}/poll")
    assert answer.status_code == 200, answer.text
    items: list[Json] = json.loads(answer.text, parse_int=str, parse_float=str)["data"]
    return [item for item in items if item["event_id"] == event_id]


def bytes_of(item: Json) -> bytes:
    return base64.b64decode(item["request"]["body"])


TOLERANT = "tolerant.body.received"
"""An event type without a schema."""


@pytest.fixture(scope="session")
async def consumers(client: httpx2.AsyncClient, tenant: str) -> dict[str, str]:
    """Endpoints that get the events of this type from all tests."""
    return await make_consumers(client, tenant, TOLERANT)


@pytest.mark.both_databases
@pytest.mark.parametrize(
    ("body", "content_type", "data"),
    [
        (b'{"a": {"diff": "a\\u0000b"}}', "", {"a": {"diff": "a\0b"}}),
        (b'{"a\\u0000": "\\ud800"}', "", {"a\0": "\ud800"}),
        (b'\xef\xbb\xbf{"a": "x"}', "", {"a": "x"}),
        ('{"a": "ü"}'.encode("utf-16"), "", {"a": "ü"}),
        (b'{"id": "first", "id": "last"}', "", {"id": "last"}),
        (b'{"a": "f\xfcnf"}', "application/json; charset=ISO-8859-1", {"a": "fünf"}),
        (b'{"a": "f\xfcnf"}', "", {"a": "f\ufffdnf"}),
        (b'{"a": 1e400, "b": 1.10}', "application/hal+json", {"a": "1e400", "b": "1.10"}),
        (b'{"a": %s}' % HUGE.encode(), "", {"a": HUGE}),
        (b"[" * 65 + b"]" * 65, "", json.loads("[" * 65 + "]" * 65)),
        (b"a=1&&b&c=%E9%00&\xc3\xbc=%zz", FORM, {"a": "1", "b": "", "c": "\ufffd\0", "ü": "%zz"}),
        (b"not JSON", "", {"unparsed": {"text": "not JSON"}}),
        (b"\x00\xff{", "", {"unparsed": {"base64": "AP97"}}),
        (b"[" * 100_000, "", {"unparsed": {"text": "[" * 100_000}}),
    ],
    ids=lambda value: str(value)[:30],
)
async def test_every_verified_body_reaches_every_subscriber(
    client: httpx2.AsyncClient,
    tenant: str,
    consumers: dict[str, str],
    body: bytes,
    content_type: str,
    data: Any,
) -> None:
    source = (
        await make_source(
            client,
            tenant,
            event_types={"github.**": TOLERANT},
            id_expression="a",
            idempotency={"expression": "values(@)[0]"},
        )
    )["id"]
    headers, _ = signed(body)
    headers["Content-Type"] = content_type or headers["Content-Type"]
    answer = await post(client, source, headers, body)
    assert (answer.status_code, answer.json()["status"]) == (202, "accepted"), answer.text
    again = await post(client, source, headers, body)
    assert again.json() == answer.json() | {"duplicate": True}

    event_id = answer.json()["event_id"]
    [raw] = await polled(client, consumers["raw"], event_id)
    assert bytes_of(raw) == body
    assert raw["request"]["content_type"] == headers["Content-Type"]
    for style in ("full", "mapped", "filtered"):
        [item] = await polled(client, consumers[style], event_id)
        assert item["mapping_error"] is None
        found = item["event"]["data"]
        if "unparsed" in found:
            assert found["unparsed"].pop("reason").startswith(("the body is not JSON", "the form"))
        assert found == data

    event = await client.get(f"/events/{event_id}")
    assert event.status_code == 200
    shown = await client.get(f"/inbox/{answer.json()['id']}/body")
    assert shown.content == body


@pytest.fixture
async def strict(
    client: httpx2.AsyncClient, tenant: str, make_event_type: MakeEventType
) -> tuple[str, str]:
    """A source and its only event type, whose schema demands a member `token` and only strings."""
    name = f"strict.t{uuid.uuid4().hex[:8]}.received"
    schema = {"required": ["token"], "type": "object", "additionalProperties": {"type": "string"}}
    await make_event_type(name, schema=schema)
    return (await make_source(client, tenant, event_types={"github.**": name}))["id"], name


@pytest.mark.both_databases
@pytest.mark.parametrize(
    "body",
    [
        b'{"hush\\u0000": 1}',
        b'{"\\ud800": 1}',
        f'{{"token": {HUGE}}}'.encode(),
        b"not JSON",
    ],
    ids=["NUL", "surrogate", "integer", "text"],
)
async def test_body_that_violates_the_schema_still_reaches_raw_subscribers(
    client: httpx2.AsyncClient,
    tenant: str,
    strict: tuple[str, str],
    make_subscription: Make,
    make_endpoint: Make,
    make_event_type: MakeEventType,
    body: bytes,
) -> None:
    source, name = strict
    consumers = await make_consumers(client, tenant, name)
    pushed = await make_endpoint(tenant_id=tenant, events=["never.to.match"])
    for payload in ("raw", "full"):
        await make_subscription(endpoint_id=pushed["id"], events=[name], payload=payload)

    async def payloads() -> list[str]:
        listed = await client.get(f"/events/{entry['event_id']}/deliveries")
        return sorted(row["payload"] for row in listed.json()["data"])

    entry = (await send(client, source, body)).json()
    assert entry["status"] == "failed"
    assert await payloads() == ["raw"]
    event_id = entry["event_id"]
    found = {style: await polled(client, one, event_id) for style, one in consumers.items()}
    assert [style for style, items in found.items() if items] == ["raw"]
    assert bytes_of(found["raw"][0]) == body
    replay = await client.post(
        f"/events/{entry['event_id']}/replay",
        json={"include_new": True, "dry_run": True},
    )
    assert replay.json()["new_deliveries"] == 0, replay.text
    assert_problem(await client.post(f"/inbox/{entry['id']}/retry"), 422, code="schema_violation")

    await make_event_type(name, schema=True)
    retried = await client.post(f"/inbox/{entry['id']}/retry")
    assert (retried.status_code, retried.json()["status"]) == (200, "accepted"), retried.text
    assert retried.json()["event_id"] == entry["event_id"]
    assert await payloads() == ["full", "raw"]
    assert len(await polled(client, consumers["full"], event_id)) == 1


@pytest.mark.both_databases
async def test_body_that_violates_the_schema_is_no_event_without_raw_subscribers(
    client: httpx2.AsyncClient, tenant: str, strict: tuple[str, str], make_endpoint: Make
) -> None:
    source, name = strict
    await make_endpoint(tenant_id=tenant, events=[name])
    entry = (await send(client, source, b'{"\\ud800": 1}')).json()
    assert (entry["status"], entry["event_id"]) == ("failed", None)


async def test_request_of_gitlab_that_is_not_json_gets_no_error(
    client: httpx2.AsyncClient, tenant: str
) -> None:
    source = (await make_source(client, tenant, provider="gitlab"))["id"]
    headers = {"X-Gitlab-Token": SECRET, "X-Gitlab-Event-UUID": "c1d2"}
    answer = await post(client, source, headers, b"\xff")
    assert (answer.status_code, answer.json()["status"]) == (202, "accepted")
    headers["X-Gitlab-Token"] = "not the secret of it"
    assert_problem(await post(client, source, headers, b"\xff"), 401, code="signature_mismatch")


async def test_signature_is_checked_before_the_content_type(
    client: httpx2.AsyncClient, source: str
) -> None:
    xml = {"Content-Type": "application/xml"}
    assert_problem(await send(client, source, b"<a/>", **xml), 415, code="unsupported_content_type")
    wrong = await send(client, source, b"<a/>", secret="another secret of 16", **xml)
    assert_problem(wrong, 401, code="signature_mismatch")


async def test_generic_source_accepts_the_content_types_that_the_operator_lists(
    client: httpx2.AsyncClient, tenant: str
) -> None:
    options = {
        "signature_header": "X-Hub-Signature-256",
        "prefix": "sha256=",
        "type_expression": "Type",
        "content_types": ["text/plain"],
    }
    source = await make_source(client, tenant, provider="generic", options=options)
    plain = {"Content-Type": "text/plain; charset=UTF-8"}
    answer = await send(client, source["id"], b'{"Type": "Notification"}', **plain)
    assert answer.status_code == 202, answer.text
    assert answer.json()["event_type"] == "generic.notification.received"
    event = (await client.get(f"/events/{answer.json()['event_id']}")).json()
    assert event["data"] == {"Type": "Notification"}


@pytest.mark.both_databases
async def test_headers_that_rfc_9110_allows_are_forwarded_with_the_body(
    client: httpx2.AsyncClient, tenant: str, consumers: dict[str, str]
) -> None:
    source = (await make_source(client, tenant, event_types={"github.**": TOLERANT}))["id"]
    body, url = b'{"a": 1}', client.base_url.join(f"/in/{source}")
    headers = [(name.encode(), value.encode()) for name, value in signed(body)[0].items()]
    headers += [(b"X-Acme", b"a\tb"), (b"X-Name", b"M\xfcller"), (b"X-Empty", b"")]
    request = client.build_request("POST", url, headers=headers, content=body)
    answer = await client.send(request)
    assert answer.status_code == 202
    [item] = await polled(client, consumers["raw"], answer.json()["event_id"])
    kept = {name.lower(): value for name, value in item["request"]["headers"]}
    assert (kept["x-acme"], kept["x-name"], kept["x-empty"]) == ("a\tb", "Müller", "")

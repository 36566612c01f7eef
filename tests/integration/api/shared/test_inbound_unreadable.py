"""`POST /in/…` keeps a verified request whose body cannot be read, because some providers switch
off a webhook that gets errors."""

from __future__ import annotations

import httpx2
import pytest
from sqlalchemy import update

from api.process.context import Context
from hookfast.storage.tables import InboxEntry
from tests.integration.api.inbound import SECRET, post, send, signed
from tests.integration.api.shared.sources import make_source, stats
from tests.support.api_client import assert_problem

pytestmark = pytest.mark.anyio

REPEATED = b'{"ref": "main", "ref": "dev"}'


@pytest.mark.parametrize(
    "body",
    [
        REPEATED,
        b"not JSON",
        b"",
        '{"ö": 1}'.encode("latin-1"),
        '{"a": 1}'.encode("utf-16"),
        b"\x00\xff{",
    ],
)
async def test_unreadable_body_is_stored_as_failed_byte_for_byte(
    client: httpx2.AsyncClient, source: str, body: bytes
) -> None:
    answer = await send(client, source, body)
    assert answer.status_code == 202, answer.text
    assert (answer.json()["status"], answer.json()["event_id"]) == ("failed", None)
    path = f"/inbox/{answer.json()['id']}"
    assert (await client.get(f"{path}/body")).content == body
    entry = (await client.get(path)).json()
    assert (entry["status"], entry["event_type"]) == ("failed", "github.push.received")
    assert entry["last_error"].startswith("unreadable_payload: The body cannot be read: ")
    listed = await client.get("/inbox", params={"source_id": source, "status": "failed"})
    assert answer.json()["id"] in [row["id"] for row in listed.json()["data"]]


async def test_unreadable_request_of_gitlab_gets_no_error(
    client: httpx2.AsyncClient, tenant: str
) -> None:
    source = (await make_source(client, tenant, provider="gitlab"))["id"]
    headers = {
        "Content-Type": "application/json",
        "X-Gitlab-Token": SECRET,
        "X-Gitlab-Event-UUID": "c1d2",
    }
    answer = await post(client, source, headers, REPEATED)
    assert (answer.status_code, answer.json()["status"]) == (202, "failed")
    headers["X-Gitlab-Token"] = "not the secret of it"
    assert_problem(await post(client, source, headers, REPEATED), 401, code="signature_mismatch")


async def test_repeated_unreadable_request_is_a_duplicate(
    client: httpx2.AsyncClient, context: Context, tenant: str
) -> None:
    source = (await make_source(client, tenant))["id"]
    first, again = [await send(client, source, REPEATED, delivery="one") for _ in range(2)]
    assert (first.status_code, again.status_code) == (202, 200)
    assert again.json() == first.json() | {"duplicate": True}
    headers, body = signed(REPEATED)
    del headers["X-GitHub-Delivery"]
    unnamed = [await post(client, source, headers, body) for _ in range(2)]
    assert [one.status_code for one in unnamed] == [202, 200]
    counted = await stats(client, context, source)
    assert (counted["failed"], counted["duplicates"], counted["rejected"]) == (2, 2, 0)


async def test_retry_of_an_unreadable_request_says_that_it_still_cannot_be_read(
    client: httpx2.AsyncClient, source: str
) -> None:
    entry = (await send(client, source, REPEATED)).json()["id"]
    answer = await client.post(f"/inbox/{entry}/retry")
    assert_problem(answer, 422, code="unreadable_payload")
    assert (await client.get(f"/inbox/{entry}")).json()["status"] == "failed"


async def test_retry_of_a_request_that_became_readable_finds_its_type_and_business_key(
    client: httpx2.AsyncClient, context: Context, tenant: str
) -> None:
    """A newer version may read what this one cannot; the changed row stands for that."""
    source = await make_source(
        client,
        tenant,
        idempotency={"expression": "ref", "window_seconds": 3600},
        event_types={"github.issues.*": "tracker.issue.changed"},
    )
    entry = (await send(client, source["id"], b"{", event="issues")).json()["id"]
    async with context.database.write() as connection:
        body = b'{"action": "opened", "ref": "main"}'
        await connection.execute(
            update(InboxEntry).where(InboxEntry.id == entry).values(body=body)  # type: ignore[arg-type]
        )
    retried = await client.post(f"/inbox/{entry}/retry")
    assert retried.status_code == 200, retried.text
    assert retried.json()["event_type"] == "tracker.issue.changed"
    assert retried.json()["business_key"] is not None
    assert retried.json()["last_error"] is None
    event = (await client.get(f"/events/{retried.json()['event_id']}")).json()
    assert event["type"] == "tracker.issue.changed"


async def test_unreadable_request_registers_no_event_type(
    client: httpx2.AsyncClient, source: str
) -> None:
    answer = await send(client, source, b"{", event="event_of_nobody")
    assert answer.json()["event_type"] == "github.event_of_nobody.received"
    unknown = await client.get("/event-types/github.event_of_nobody.received")
    assert_problem(unknown, 404, code="not_found")

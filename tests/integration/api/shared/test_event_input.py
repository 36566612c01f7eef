"""Invalid events: a clear problem, the same on both databases, and nothing is stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
import uvicorn
from fastapi import FastAPI
from sqlalchemy import func, select

from api.context.context import Context
from hookfast.storage.tables import Event
from tests.support.api_client import OPERATOR_KEY, KeyClient, Make, MakeEventType, assert_problem

pytestmark = pytest.mark.anyio


TYPE = "order.invoice.paid"

JSON = {"Content-Type": "application/json"}

TENANT = "tnt_" + "0" * 32


@pytest.fixture(autouse=True)
async def event_type(make_event_type: MakeEventType) -> None:
    await make_event_type(TYPE)


async def stored_events(context: Context) -> int:
    async with context.database.read() as connection:
        count = await connection.execute(select(func.count()).select_from(Event.__table__))
        return count.scalar_one()


@pytest.mark.parametrize(
    "raw", [b"", b'{"type": "order.invoice.paid", "data": {"a": 1, "a": 1}}', b"null"]
)
@pytest.mark.parametrize("path", ["/events", "/events/batch"])
async def test_body_that_is_not_strict_json_is_rejected(
    client: httpx2.AsyncClient, context: Context, path: str, raw: bytes
) -> None:
    """What strict JSON is: tests/unit/strict_json."""
    before = await stored_events(context)
    answer = await client.post(path, content=raw, headers=JSON)
    assert answer.status_code == 422, answer.text
    assert answer.json()["code"] in ("invalid_json", "invalid_input")
    assert await stored_events(context) == before


@pytest.mark.parametrize(
    ("members", "code", "pointer"),
    [
        ({"type": None}, "invalid_input", "/type"),
        ({"type": "order.invoice.voided"}, "unknown_event_type", "/type"),
        ({"deliver_at": "9999-12-31T23:59:59Z"}, "too_far_ahead", "/deliver_at"),
        ({"a/b~c": 1}, "invalid_input", "/a~1b~0c"),
    ],
)
async def test_error_points_at_the_invalid_member(
    client: httpx2.AsyncClient,
    context: Context,
    members: dict[str, Any],
    code: str,
    pointer: str,
) -> None:
    """Each rule of an event: tests/unit/api/forms/test_event.py."""
    before = await stored_events(context)
    answer = await client.post("/events", json={"type": TYPE, "data": 1} | members)
    assert_problem(answer, 422, code=code, pointer=pointer)
    assert await stored_events(context) == before


@pytest.mark.parametrize("data", [None, False, 0, "", [], {}, 1.5, "x" * 1000])
async def test_data_may_be_any_json_value(client: httpx2.AsyncClient, data: Any) -> None:
    answer = await client.post("/events", json={"type": TYPE, "data": data})
    assert answer.status_code == 202, answer.text
    event = await client.get(f"/events/{answer.json()['id']}")
    assert event.json()["data"] == data


async def test_data_may_nest_as_deep_as_the_limit(client: httpx2.AsyncClient) -> None:
    data = b"[" * 63 + b"]" * 63  # with the event around it: 64 levels
    raw = b'{"type": "order.invoice.paid", "data": ' + data + b"}"
    answer = await client.post("/events", content=raw, headers=JSON)
    assert answer.status_code == 202, answer.text
    batch = b'{"events": [' + raw + b"]}"
    answer = await client.post("/events/batch", content=batch, headers=JSON)
    assert answer.json()["accepted"] == 1


async def test_unknown_tenant_answers_404(client: httpx2.AsyncClient, make_tenant: Make) -> None:
    event = {"type": TYPE, "data": 1}
    answer = await client.post("/events", json=event | {"tenant_id": TENANT})
    assert_problem(answer, 404, code="not_found")
    gone = (await make_tenant())["id"]
    assert (await client.post("/events", json=event | {"tenant_id": gone})).status_code == 202
    assert (await client.delete(f"/tenants/{gone}")).status_code == 204
    answer = await client.post("/events", json=event | {"tenant_id": gone})
    assert_problem(answer, 404, code="not_found")


@pytest.mark.parametrize("media_type", ["text/plain", "application/xml", None])
async def test_body_without_json_content_type_is_rejected(
    client: httpx2.AsyncClient, media_type: str | None
) -> None:
    headers = {} if media_type is None else {"Content-Type": media_type}
    answer = await client.post("/events", content=b'{"type": 1}', headers=headers)
    assert_problem(answer, 415, code="unsupported_media_type")


@pytest.mark.parametrize("key", ["", " ", "a b", "x" * 256, "ä".encode("latin-1"), "\t"])
@pytest.mark.parametrize("path", ["/events", "/events/batch"])
async def test_idempotency_key_must_be_visible_ascii(
    client: httpx2.AsyncClient, path: str, key: str | bytes
) -> None:
    event = {"type": TYPE, "data": 1}
    body = event if path == "/events" else {"events": [event]}
    answer = await client.post(path, json=body, headers={"Idempotency-Key": key})
    assert_problem(answer, 422, code="invalid_input", pointer="Idempotency-Key")


@pytest.mark.parametrize(
    ("path", "parameter"),
    [
        ("/events?color=red", "color"),
        ("/events?type=Paid", "type"),
        ("/events?type=order.invoice.paid%00", "type"),
        ("/events?tenant_id=acme", "tenant_id"),
        ("/events?since=yesterday", "since"),
        ("/events?until=2026-11-20T11:15:00", "until"),
        ("/events?limit=0", "limit"),
        ("/events?limit=201", "limit"),
        ("/events?cursor=%F0%9F%92%A9", "cursor"),
        ("/deliveries?status=lost", "status"),
        ("/deliveries?endpoint_id=evt_1", "endpoint_id"),
        ("/deliveries?subscription_id=%00", "subscription_id"),
        ("/deliveries?event_id=1", "event_id"),
        ("/deliveries?event_type=**", "event_type"),
        ("/deliveries?since=1763637300", "since"),
    ],
)
async def test_error_names_the_invalid_query_parameter(
    client: httpx2.AsyncClient, path: str, parameter: str
) -> None:
    answer = await client.get(path)
    assert answer.status_code == 422, answer.text
    assert [error["pointer"] for error in answer.json()["errors"]] == [parameter]


@pytest.mark.parametrize("event_id", ["1", "evt_1", f"dlv_{'0' * 32}", "%00", "%ED%A0%80", "é"])
async def test_malformed_id_in_a_path_answers_404(
    client: httpx2.AsyncClient, event_id: str
) -> None:
    for path in (f"/events/{event_id}", f"/events/{event_id}/deliveries"):
        assert (await client.get(path)).status_code == 404


@pytest.fixture
async def server(app: FastAPI) -> AsyncIterator[str]:
    """The application behind a real server: its base URL."""
    config = uvicorn.Config(app, port=0, lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn offers no event for it
        await asyncio.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/v1"
    server.should_exit = True
    await task


def event_of_size(size: int) -> bytes:
    frame = len(b'{"type":"order.invoice.paid","data":""}')
    return b'{"type":"order.invoice.paid","data":"%s"}' % (b"x" * (size - frame))


@pytest.mark.parametrize("chunked", [False, True])
async def test_event_of_the_maximum_size_is_accepted_and_a_larger_one_rejected(
    server: str, context: Context, chunked: bool
) -> None:
    limit = context.settings.max_event_bytes
    headers = JSON | {"Authorization": f"Bearer {OPERATOR_KEY}"}
    before = await stored_events(context)

    async def chunks(body: bytes) -> AsyncIterator[bytes]:
        for start in range(0, len(body), 10_000):
            yield body[start : start + 10_000]

    async with httpx2.AsyncClient(base_url=server, headers=headers) as client:
        for size, status in [(limit, 202), (limit + 1, 413), (4 * limit, 413)]:
            body = event_of_size(size)
            assert len(body) == size
            content = chunks(body) if chunked else body
            answer = await client.post("/events", content=content)
            assert answer.status_code == status, answer.text
    assert await stored_events(context) == before + 1


async def test_valid_event_for_another_tenant_answers_404(
    make_tenant: Make, key_client: KeyClient
) -> None:
    mine, other = await make_tenant(), await make_tenant()
    async with key_client(mine["id"], scope="emit") as own:
        event = {"type": TYPE, "data": 1, "tenant_id": other["id"]}
        assert_problem(await own.post("/events", json=event), 404, code="not_found")
        assert (await own.post("/events", json=event | {"tenant_id": mine["id"]})).is_success

"""Input that is small to send and costly to handle, on every writing route of the OpenAPI document:
it is rejected with a problem or accepted, alike on both databases, and never a 500."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from api.context.context import Context
from tests.integration.api.shared import test_isolation as isolation
from tests.integration.api.shared.one_of_everything import EVENT_TYPE
from tests.integration.api.shared.rows import rows_of
from tests.integration.api.shared.test_mass_assignment import BODIES, DOCUMENT, WRITING, _resolved
from tests.support.api_client import OPERATOR_KEY, assert_problem, client_with

pytestmark = pytest.mark.anyio

JSON = {"Content-Type": "application/json"}
# one of each kind: what the parser accepts is tested in tests/unit/strict_json/test_parser.py
NOT_STRICT = [
    b"[" * 100_000,
    b'{"name":' + b"9" * 5_000 + b"}",
    b'{"name":-1E+400}',
    b'{"name":NaN}',
    b'{"name":"\\ud83d"}',
    b'{"\\u0000":1}',
    b'{"n\\u0061me":1,"name":1}',
]
HUGE = 10**400  # no double holds it, and no column


def _path(operation: isolation.Operation, victim: dict[str, str]) -> str:
    return operation.path.format(**victim, name=EVENT_TYPE)


@pytest.mark.parametrize("operation", WRITING, ids=str)
async def test_every_route_rejects_json_that_is_not_strict(
    client: httpx2.AsyncClient,
    context: Context,
    victim: dict[str, str],
    operation: isolation.Operation,
) -> None:
    before = await rows_of(context, victim["tenant_id"])
    for raw in NOT_STRICT:
        answer = await client.request(
            operation.method, _path(operation, victim), content=raw, headers=JSON
        )
        assert_problem(answer, 422, code="invalid_json")
        assert len(answer.content) < 2_000
    assert await rows_of(context, victim["tenant_id"]) == before


@pytest.mark.parametrize("operation", WRITING, ids=str)
async def test_every_member_rejects_huge_numbers_and_texts(
    client: httpx2.AsyncClient, victim: dict[str, str], operation: isolation.Operation
) -> None:
    content = operation.document["requestBody"]["content"]
    names = {
        name
        for media in content.values()
        for schema in _resolved(media["schema"])
        for name in schema["properties"]
    }
    body = isolation._filled(BODIES[str(operation)], victim)
    values: list[Any] = [-1, 2**31, 2**63, 2**64, HUGE, -HUGE, 5e-324, 1e308, "x" * 200_000]
    for name in sorted(names - {"data"}):  # an event's data may have any member
        for value in values:
            raw = json.dumps(body | {name: value})
            answer = await client.request(
                operation.method, _path(operation, victim), content=raw, headers=JSON
            )
            assert answer.status_code < 500, (name, str(value)[:20], answer.text)
            if value in (HUGE, -HUGE) or isinstance(value, str):
                assert answer.status_code == 422, (name, str(value)[:20], answer.text)
            assert len(answer.content) < 20_000


async def test_every_query_parameter_rejects_huge_values(
    app: FastAPI, victim: dict[str, str]
) -> None:
    query = ""

    async def with_query(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "query_string": query.encode()}, receive, send)

    values = ["9" * 5_000, "-1", "1e5", "x" * 20_000, "\ud7ff" * 1_000, "١٢", "[" * 10_000]
    encoded = [quote(value) for value in values]  # httpx2 takes 20 ms for a long query
    async with client_with(with_query, OPERATOR_KEY) as client:
        for operation in isolation.OPERATIONS:
            path = _path(operation, victim)
            for name in sorted(operation.queries):
                for value in encoded:
                    query = f"{name}={value}"
                    answer = await client.request(operation.method, path)
                    allowed = (200, 404, 415, 422)
                    assert answer.status_code in allowed, (str(operation), query[:30])
                    assert answer.status_code != 200 or name not in ("limit", "cursor", "since")


@pytest.mark.parametrize("count", [10_000, 100_000])
async def test_hundred_thousand_unknown_members_get_a_short_error(
    client: httpx2.AsyncClient, victim: dict[str, str], count: int
) -> None:
    many = {f"{number:x}": 0 for number in range(count)}
    raw = json.dumps(many, separators=(",", ":")).encode()
    answer = await client.post("/tenants", content=raw, headers=JSON)
    if len(raw) > 262_144:
        assert_problem(answer, 413, code="too_large")
    else:
        problem = assert_problem(answer, 422, code="invalid_input")
        assert len(problem["errors"]) == 20
    assert len(answer.content) < 10_000
    event = {"type": EVENT_TYPE, "data": many}
    answer = await client.post("/events/batch", json={"events": [event, event | {"data": 1}]})
    assert [item["status"] for item in answer.json()["data"]] == [
        413 if len(raw) > 262_144 else 202,
        202,
    ]


async def test_colliding_member_names_do_not_slow_down_parsing(client: httpx2.AsyncClient) -> None:
    """Python's string hashes are keyed per process; this test guards a change of the parser."""
    names = {("\u0001" * (number % 7)) + str(number) * 3: number for number in range(5_000)}
    answer = await client.post("/tenants", json={"name": "x", "metadata": names})
    assert_problem(answer, 422, code="invalid_input", pointer="/metadata")


@pytest.mark.parametrize(
    "path",
    [
        "/tenants/" + "x" * 20_000,
        "/tenants/%00",
        "/tenants/%ff%fe",
        "/event-types/%00.b.c",
        "/event-types/a.b.%F0%9F%92%A3",
        "/event-types/..%2F..%2Fetc",
        "/deliveries/" + "%25" * 500,
        "/events/evt_" + "0" * 32 + "%0d%0aSet-Cookie:x=1",
    ],
    ids=lambda path: path[:30],
)
async def test_unusual_path_answers_with_a_problem(client: httpx2.AsyncClient, path: str) -> None:
    answer = await client.get(path)
    assert answer.status_code in (404, 422)
    assert answer.headers["content-type"] == "application/problem+json"
    assert "set-cookie" not in answer.headers
    assert len(answer.content) < 2_000


def test_every_writing_route_is_tested() -> None:
    count = sum(
        "requestBody" in operation
        for path, methods in DOCUMENT["paths"].items()
        if path.startswith("/v1/")
        for operation in methods.values()
    )
    assert len(WRITING) == count >= 17

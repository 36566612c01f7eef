"""Schemas of event types: invalid data is rejected with pointers, in bounded time."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

from hookfast.storage.events import schema_checks
from tests.support.api_client import MakeEventType, assert_problem

pytestmark = pytest.mark.anyio

TYPE = "order.invoice.checked"
"""An event type of this module only, because other tests' events would not match its schemas."""


@pytest.fixture(autouse=True)
async def event_type(make_event_type: MakeEventType) -> None:
    await make_event_type(TYPE)


SCHEMA = {
    "type": "object",
    "required": ["id", "amount"],
    "properties": {
        "id": {"type": "string"},
        "amount": {"type": "integer", "minimum": 0},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
    },
    "$defs": {"line": {"type": "object", "properties": {"a/b": {"const": 1}}}},
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("data", "pointers"),
    [
        ([], ["/data"]),
        ({"id": "x"}, ["/data"]),
        ({"id": 1, "amount": -1}, ["/data/amount", "/data/id"]),
        ({"id": "x", "amount": 1, "more": 1}, ["/data"]),
        ({"id": "x", "amount": 1, "lines": [{}, {"a/b": 2}]}, ["/data/lines/1/a~1b"]),
    ],
)
async def test_data_that_violates_the_schema_is_rejected_with_pointers(
    client: httpx2.AsyncClient, make_event_type: MakeEventType, data: Any, pointers: list[str]
) -> None:
    await make_event_type(TYPE, schema=SCHEMA)
    answer = await client.post("/events", json={"type": TYPE, "data": data})
    problem = assert_problem(answer, 422, code="schema_violation")
    assert sorted(error["pointer"] for error in problem["errors"]) == pointers
    assert (
        await client.post("/events", json={"type": TYPE, "data": {"id": "x", "amount": 1}})
    ).status_code == 202


async def test_at_most_twenty_schema_errors_are_listed(
    client: httpx2.AsyncClient, make_event_type: MakeEventType
) -> None:
    await make_event_type(TYPE, schema={"items": {"type": "string"}})
    answer = await client.post("/events", json={"type": TYPE, "data": list(range(1000))})
    problem = assert_problem(answer, 422, code="schema_violation")
    assert [error["pointer"] for error in problem["errors"]] == [f"/data/{n}" for n in range(20)]


async def test_a_problem_never_repeats_the_data(
    client: httpx2.AsyncClient, make_event_type: MakeEventType
) -> None:
    await make_event_type(TYPE, schema={"type": "integer"})
    answer = await client.post("/events", json={"type": TYPE, "data": "s3cret"})
    assert "s3cret" not in answer.text


async def test_changed_schema_applies_from_the_next_event(
    client: httpx2.AsyncClient, make_event_type: MakeEventType
) -> None:
    event = {"type": TYPE, "data": 1}
    for schema, status in [({"type": "string"}, 422), (True, 202), (False, 422), (None, 202)]:
        await make_event_type(TYPE, schema=schema)
        assert (await client.post("/events", json=event)).status_code == status


async def test_deleted_event_type_is_unknown_from_the_next_event(
    client: httpx2.AsyncClient,
) -> None:
    event = {"type": TYPE, "data": 1}
    assert (await client.post("/events", json=event)).status_code == 202
    assert (await client.delete(f"/event-types/{TYPE}")).status_code == 204
    assert_problem(await client.post("/events", json=event), 422, code="unknown_event_type")


SLOW_PATTERN = {"pattern": "[^@]+[@!][^@]+"}


async def test_only_the_event_that_takes_too_long_to_check_is_rejected(
    client: httpx2.AsyncClient, make_event_type: MakeEventType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_checks, "EVENT_SECONDS", 0.1)
    await make_event_type(TYPE, schema=SLOW_PATTERN)
    bad, good = {"type": TYPE, "data": "a" * 60_000}, {"type": TYPE, "data": "a@b"}
    refused, taken = await asyncio.gather(
        client.post("/events", json=bad), client.post("/events", json=good)
    )
    assert_problem(refused, 422, code="schema_too_slow", pointer="/data")
    assert taken.status_code == 202, taken.text
    batch = await client.post("/events/batch", json={"events": [good, bad, good]})
    assert [one["status"] for one in batch.json()["data"]] == [202, 422, 202]
    assert batch.json()["data"][1]["problem"]["code"] == "schema_too_slow"


async def test_unique_items_are_checked_fast(
    client: httpx2.AsyncClient, make_event_type: MakeEventType
) -> None:
    await make_event_type(TYPE, schema={"uniqueItems": True})
    things: list[dict[str, int]] = [{"a": n} for n in range(5_000)]
    answer = await client.post("/events", json={"type": TYPE, "data": things})
    assert answer.status_code == 202, answer.text
    answer = await client.post("/events", json={"type": TYPE, "data": [*things, {"a": 7}]})
    assert_problem(answer, 422, code="schema_violation", pointer="/data")


@pytest.mark.parametrize(
    ("divisor", "number", "status"),
    [
        (0.01, "19.99", 202),
        (0.01, "19.991", 422),
        (0.1, "92.6", 202),
        (0.5, "1" + "0" * 400, 202),  # no float holds it
        (0.5, "1" + "0" * 300 + ".25", 422),
        (1e-300, "1e300", 202),
    ],
)
async def test_multiples_are_those_of_the_written_numbers(
    client: httpx2.AsyncClient,
    make_event_type: MakeEventType,
    divisor: float,
    number: str,
    status: int,
) -> None:
    await make_event_type(TYPE, schema={"multipleOf": divisor})
    raw = f'{{"type": "{TYPE}", "data": {number}}}'
    headers = {"Content-Type": "application/json"}
    answer = await client.post("/events", content=raw, headers=headers)
    assert answer.status_code == status, answer.text

"""Schemas of event types: invalid data is rejected with pointers, in bounded time."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

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


async def test_only_the_event_that_takes_too_long_to_check_is_rejected(
    client: httpx2.AsyncClient, make_event_type: MakeEventType
) -> None:
    await make_event_type(TYPE, schema={"pattern": r"(a*)\1b"})
    bad, good = {"type": TYPE, "data": "a" * 60_000}, {"type": TYPE, "data": "aab"}
    refused, taken = await asyncio.gather(
        client.post("/events", json=bad), client.post("/events", json=good)
    )
    assert_problem(refused, 422, code="schema_too_slow", pointer="/data")
    assert taken.status_code == 202, taken.text
    batch = await client.post("/events/batch", json={"events": [good, bad, good]})
    assert [one["status"] for one in batch.json()["data"]] == [202, 422, 202]
    assert batch.json()["data"][1]["problem"]["code"] == "schema_too_slow"


@pytest.mark.both_databases  # a JSON column
@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        ('{"multipleOf": 0.01}', "19.99 0.07 1.11 4.02 1.00", "19.991"),
        ('{"multipleOf": 0.5}', f"1{'0' * 400}", "0.25"),
        ('{"maximum": 9007199254740992}', "9007199254740992.0", "9007199254740993.0"),
        ('{"maximum": 9007199254740993.0}', "9007199254740993", "9007199254740994"),
        ('{"const": 0.1}', "0.1 0.10", "0.10000000000000000001"),
        ('{"enum": [0.10000000000000000001]}', "0.10000000000000000001", "0.1"),
    ],
)
async def test_numbers_of_schema_and_data_are_compared_as_they_were_sent(
    client: httpx2.AsyncClient,
    make_event_type: MakeEventType,
    schema: str,
    valid: str,
    invalid: str,
) -> None:
    headers = {"Content-Type": "application/json"}
    put = f'{{"description": "", "schema": {schema}}}'
    answer = await client.put(f"/event-types/{TYPE}", content=put, headers=headers)
    assert answer.status_code == 200, answer.text
    for numbers, status in ((valid, 202), (invalid, 422)):
        for number in numbers.split():
            event = f'{{"type": "{TYPE}", "data": {number}}}'
            answer = await client.post("/events", content=event, headers=headers)
            assert answer.status_code == status, (number, answer.text)


@pytest.mark.parametrize(
    ("pattern", "valid", "invalid"),
    [
        ("^a$", "a", "a\n"),
        (r"^\d+$", "12", "١٢"),
        (r"^\w+$", "e", "é"),
        (r"^\p{L}+$", "é", "1"),
        (r"^(?<y>\d{4})$", "2026", "26"),
        (r"^\d+\.?\d+$", "12", "1"),
    ],
)
async def test_patterns_are_those_of_ecma_262_for_values_and_names(
    client: httpx2.AsyncClient,
    make_event_type: MakeEventType,
    pattern: str,
    valid: str,
    invalid: str,
) -> None:
    await make_event_type(
        TYPE,
        schema={
            "items": {
                "pattern": pattern,
                "patternProperties": {pattern: True},
                "additionalProperties": False,
            }
        },
    )
    for text, status in ((valid, 202), (invalid, 422)):
        for data in ([text], [{text: 1}]):
            answer = await client.post("/events", json={"type": TYPE, "data": data})
            assert answer.status_code == status, (data, answer.text)


async def test_schema_that_cannot_be_applied_is_refused_by_name(
    client: httpx2.AsyncClient,
) -> None:
    form = {"description": "", "schema": {"properties": {"a": {"pattern": r"\Aa\Z"}}}}
    answer = await client.put(f"/event-types/{TYPE}", json=form)
    problem = assert_problem(
        answer, 422, code="invalid_schema", pointer="/schema/properties/a/pattern"
    )
    assert "`\\A` is no escape" in problem["errors"][0]["detail"]

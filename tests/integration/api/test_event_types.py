from __future__ import annotations

from typing import Any

import httpx2
import pytest

from hookfast.events.operational import Kind
from tests.support.api_client import MakeEventType, assert_problem

pytestmark = pytest.mark.anyio

NAME = "order.invoice.paid"
PATH = f"/event-types/{NAME}"


async def test_put_registers_and_then_replaces(client: httpx2.AsyncClient) -> None:
    schema = {"type": "object", "required": ["id"]}
    first = await client.put(PATH, json={"description": "Paid.", "schema": schema})
    assert first.status_code == 201
    assert first.json()["schema"] == schema
    second = await client.put(PATH, json={"description": "Paid in full."})
    assert second.status_code == 200
    assert second.json()["schema"] is None
    assert second.json()["description"] == "Paid in full."
    assert second.json()["created_at"] == first.json()["created_at"]
    assert second.json()["updated_at"] > first.json()["updated_at"]
    assert (await client.get(PATH)).json() == second.json()


@pytest.mark.parametrize("schema", [True, False, {}, {"$ref": "#/$defs/a", "$defs": {"a": {}}}])
async def test_schema_is_kept_unchanged(client: httpx2.AsyncClient, schema: Any) -> None:
    assert (await client.put(PATH, json={"schema": schema})).json()["schema"] == schema
    assert (await client.get(PATH)).json()["schema"] == schema


async def test_delete_removes_it(
    client: httpx2.AsyncClient, make_event_type: MakeEventType
) -> None:
    await make_event_type(NAME)
    assert (await client.delete(PATH)).status_code == 204
    assert_problem(await client.get(PATH), 404, code="not_found")
    assert_problem(await client.delete(PATH), 404, code="not_found")


async def test_the_list_is_by_name_and_paged(
    client: httpx2.AsyncClient, make_event_type: MakeEventType
) -> None:
    for name in ("b.b.b", "a.c.a", "a.a_b.c", "c.a.a"):
        await make_event_type(name)
    first = (await client.get("/event-types", params={"limit": 3})).json()
    assert [row["name"] for row in first["data"]] == ["a.a_b.c", "a.c.a", "b.b.b"]
    second = await client.get("/event-types", params={"cursor": first["next_cursor"]})
    # and the event types that exist from the start
    assert [row["name"] for row in second.json()["data"]] == ["c.a.a", *sorted(Kind)]


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("a.b.c.d.e.f.g", "invalid_event_type"),
        ("Order.invoice.paid", "invalid_event_type"),
        ("order.*.paid", "invalid_event_type"),
        ("a.b." + "c" * 200, "invalid_event_type"),
        ("a.b.c%00", "invalid_event_type"),
        ("hookfast.endpoint.disabled", "reserved_event_type"),
        ("hookfast", "reserved_event_type"),
    ],
)
async def test_invalid_event_type_name_is_rejected(
    client: httpx2.AsyncClient, name: str, code: str
) -> None:
    answer = await client.put(f"/event-types/{name}", json={})
    assert_problem(answer, 422, code=code, pointer="name")


async def test_malformed_event_type_name_answers_404(client: httpx2.AsyncClient) -> None:
    assert_problem(await client.get("/event-types/Order"), 404, code="not_found")
    assert_problem(await client.delete("/event-types/a.b.c%00"), 404, code="not_found")


async def test_invalid_schema_is_rejected(client: httpx2.AsyncClient) -> None:
    answer = await client.put(PATH, json={"schema": {"properties": {"a": {"type": "strin"}}}})
    assert_problem(answer, 422, code="invalid_schema", pointer="/schema/properties/a/type")
    assert_problem(await client.get(PATH), 404, code="not_found")

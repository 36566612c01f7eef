"""No writing route accepts an undeclared member, above all none that the response shows and the
caller may not set (`id`, `tenant_id`, `state`, …). The routes, their request and response members
are read from the OpenAPI document, so that a new route is covered from its first day."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from api.context.context import Context
from tests.integration.api.shared import test_isolation as isolation
from tests.integration.api.shared.one_of_everything import EVENT_TYPE
from tests.integration.api.shared.operations import DOCUMENT
from tests.integration.api.shared.rows import rows_of
from tests.support.api_client import Json, assert_problem

pytestmark = pytest.mark.anyio

WRITING = [each for each in isolation.OPERATIONS if "requestBody" in each.document]

# members that rows or responses have somewhere, and that a framework might let through
ALWAYS = {
    "id",
    "created_at",
    "updated_at",
    "deleted_at",
    "status",
    "state",
    "secret",
    "secrets",
    "key",
    "key_sha256",
    "revoked_at",
    "last_used_at",
    "disabled_reason",
    "hint",
    "workflow",
    "__class__",
    "__dict__",
    "constructor",
    "model_config",
    "Name",
    "",
}

# `{…}` are ids; routes for which the isolation tests have no usable body
BODIES: dict[str, Json] = isolation.BODIES | {
    "POST /tenants": {"name": "new"},
    "POST /api-keys": {"name": "new", "scope": "emit"},
    "POST /retention/runs": {},
    "PUT /event-types/{name}": {},
    "POST /events/batch": {"events": [{"type": EVENT_TYPE, "data": {}}]},
    "POST /dead-letters/redrive": {"filter": {"endpoint_id": "{endpoint_id}"}},
    "POST /deliveries/actions": {"action": "cancel", "filter": {"endpoint_id": "{endpoint_id}"}},
}


def _resolved(schema: Json) -> Iterator[Json]:
    """Return the object schemas that a schema refers to."""
    if "$ref" in schema:
        yield from _resolved(DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    elif "properties" in schema:
        yield schema
    for part in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from _resolved(part)


def _members(content: Json) -> set[str]:
    return {
        name
        for media in content.values()
        for schema in _resolved(media["schema"])
        for name in schema["properties"]
    }


def _not_taken(operation: isolation.Operation) -> list[str]:
    """Return the members that this route must reject."""
    shown = {
        name
        for status, answer in operation.document["responses"].items()
        if status.startswith("2")
        for name in _members(answer.get("content", {}))
    }
    taken = _members(operation.document["requestBody"]["content"])
    assert taken or str(operation) == "PUT /event-types/{name}"
    return sorted((shown | ALWAYS) - taken)


@pytest.mark.parametrize("operation", WRITING, ids=str)
async def test_member_that_callers_may_not_set_is_rejected(
    client: httpx2.AsyncClient,
    context: Context,
    victim: dict[str, str],
    operation: isolation.Operation,
) -> None:
    path = operation.path.format(**victim, name=EVENT_TYPE)
    body = isolation._filled(BODIES[str(operation)], victim)
    before = await rows_of(context, victim["tenant_id"])
    for name in _not_taken(operation):
        # a merge patch could treat a null as "nothing to change"
        for value in ("x", None) if operation.method == "PATCH" else ("x",):
            answer = await client.request(operation.method, path, json=body | {name: value})
            pointer = "" if operation.path == "/events/batch" else f"/{name}"
            assert_problem(answer, 422, code="invalid_input", pointer=pointer)
    assert await rows_of(context, victim["tenant_id"]) == before


@pytest.mark.parametrize("operation", WRITING, ids=str)
async def test_same_body_without_the_member_is_accepted(
    client: httpx2.AsyncClient, changing_victim: dict[str, str], operation: isolation.Operation
) -> None:
    """Without this, the test above would pass for any body."""
    path = operation.path.format(**changing_victim, name=EVENT_TYPE)
    body = isolation._filled(BODIES[str(operation)], changing_victim)
    if path.endswith("/tls"):
        secure = {"url": "https://127.0.0.1:4/"}
        await client.patch(f"/endpoints/{changing_victim['endpoint_id']}", json=secure)
    answer = await client.request(operation.method, path, json=body)
    if str(operation) == "POST /retention/runs":  # needs Temporal, which is away
        assert_problem(answer, 503, code="unavailable")
    else:
        assert answer.status_code in (200, 201, 202), answer.text


async def test_member_that_callers_may_not_set_is_rejected_in_a_batch(
    client: httpx2.AsyncClient,
) -> None:
    event = {"type": EVENT_TYPE, "data": {}}
    names = ["id", "created_at", "deliveries", "status", "key_id"]
    answer = await client.post("/events/batch", json={"events": [event | {n: "x"} for n in names]})
    found = [item["problem"]["errors"][0]["pointer"] for item in answer.json()["data"]]
    assert found == [f"/{name}" for name in names]  # of each item


@pytest.mark.parametrize(
    ("path", "body", "pointer"),
    [
        (
            "/endpoints",
            {"circuit": {"failure_threshold": 3, "state": "open"}},
            "/circuit/state",
        ),
        ("/endpoints", {"retry_plan": {"delays_seconds": [1], "name": "x"}}, None),
        ("/dead-letters/redrive", {"filter": {"status": "dead"}}, "/filter/status"),
        ("/deliveries/actions", {"action": "cancel", "filter": {"id": "x"}}, "/filter/id"),
    ],
)
async def test_unknown_member_of_a_nested_object_is_rejected(
    client: httpx2.AsyncClient, path: str, body: dict[str, Any], pointer: str | None
) -> None:
    if path == "/endpoints":
        body = {"url": "http://127.0.0.1:4/", "verification": "none"} | body
    answer = await client.post(path, json=body)
    assert_problem(answer, 422, code="invalid_input", pointer=pointer)

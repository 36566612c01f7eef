"""No route shows or changes objects of another tenant. The routes are those of the OpenAPI
document, so that a new route is covered from its first day."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
import trustme
from fastapi import FastAPI

from api.context.context import Context
from tests.integration.api.shared.one_of_everything import EVENT_TYPE
from tests.integration.api.shared.operations import EMITTING, OPERATIONS, UNKNOWN, Operation
from tests.integration.api.shared.rows import rows_of
from tests.support.api_client import Json, KeyClient, Make, client_with

pytestmark = pytest.mark.anyio

# all tenants share the catalogue of event types
OWNED = [each for each in OPERATIONS if set(each.parameters) - {"name"}]
LISTS = [each for each in OPERATIONS if each.method == "GET" and "cursor" in each.queries]

# Bodies that would be valid if the caller owned everything in them. `{…}` are the victim's ids.
BODIES: dict[str, Json] = {
    "POST /tenants/{tenant_id}/api-keys": {"name": "x"},
    "POST /tenants/{tenant_id}/portal-links": {"scope": "tenant"},
    "PATCH /tenants/{tenant_id}": {"name": "taken over"},
    "PATCH /endpoints/{endpoint_id}": {"description": "taken over"},
    "PATCH /subscriptions/{subscription_id}": {"active": False},
    "POST /endpoints/{endpoint_id}/enable": {"redrive": True},
    "POST /endpoints/{endpoint_id}/test": {"type": EVENT_TYPE},
    "POST /endpoints/{endpoint_id}/recover": {"since": "2026-01-01T00:00:00Z"},
    "POST /endpoints/{endpoint_id}/rotate-secret": {"overlap_seconds": 60},
    "PUT /endpoints/{endpoint_id}/authentication": {"kind": "bearer", "token": "x"},
    "PUT /endpoints/{endpoint_id}/tls": {"authorities": trustme.CA().cert_pem.bytes().decode()},
    "POST /events/{event_id}/replay": {"include_new": True},
    "PATCH /sources/{source_id}": {"name": "taken over"},
    "POST /sources/{source_id}/rotate-secret": {"overlap_seconds": 60},
    "POST /sources": {"tenant_id": "{tenant_id}", "name": "x", "provider": "github"},
    "POST /endpoints": {
        "tenant_id": "{tenant_id}",
        "url": "http://127.0.0.1:4/",
        "verification": "none",
    },
    "POST /subscriptions": {"endpoint_id": "{endpoint_id}", "events": ["**"]},
    "POST /subscriptions/preview": {"endpoint_id": "{endpoint_id}", "events": ["**"]},
    "POST /events": {"tenant_id": "{tenant_id}", "type": EVENT_TYPE, "data": {}},
}


def _filled(value: Any, ids: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: _filled(member, ids) for name, member in value.items()}
    return value.format(**ids) if isinstance(value, str) else value


@pytest.mark.parametrize("operation", OWNED, ids=str)
async def test_id_of_another_tenant_answers_404(
    client: httpx2.AsyncClient,
    context: Context,
    make_tenant: Make,
    key_client: KeyClient,
    victim: dict[str, str],
    operation: Operation,
) -> None:
    body = BODIES.get(str(operation))
    assert body is not None or "requestBody" not in operation.document, "add a body above"
    before = await rows_of(context, victim["tenant_id"])
    unknown = {name: value.partition("_")[0] + "_" + UNKNOWN for name, value in victim.items()}
    attacker = await make_tenant(name="Attacker")
    async with key_client(attacker["id"]) as theirs:
        answers = [
            await theirs.request(
                operation.method,
                operation.path.format(**ids),
                json=_filled(body, ids),
                headers={"X-Request-Id": "one-for-both"},  # because a problem contains it
            )
            for ids in (victim, unknown)
        ]
    assert answers[0].status_code in (403, 404), answers[0].text
    assert answers[0].status_code == answers[1].status_code
    assert answers[0].json() == answers[1].json()
    assert await rows_of(context, victim["tenant_id"]) == before


@pytest.mark.parametrize("path", ["/endpoints", "/subscriptions", "/events", "/sources"])
async def test_id_of_another_tenant_in_a_body_answers_404(
    client: httpx2.AsyncClient,
    context: Context,
    make_tenant: Make,
    key_client: KeyClient,
    victim: dict[str, str],
    path: str,
) -> None:
    before = await rows_of(context, victim["tenant_id"])
    attacker = await make_tenant()
    async with key_client(attacker["id"]) as theirs:
        answer = await theirs.post(path, json=_filled(BODIES[f"POST {path}"], victim))
    assert answer.status_code == 404, answer.text
    assert await rows_of(context, victim["tenant_id"]) == before


async def test_batch_rejects_only_items_for_another_tenant(
    make_tenant: Make, key_client: KeyClient, victim: dict[str, str]
) -> None:
    mine = {"type": EVENT_TYPE, "data": {}}
    attacker = await make_tenant()
    async with key_client(attacker["id"]) as theirs:
        items = [mine, mine | {"tenant_id": victim["tenant_id"]}]
        answer = await theirs.post("/events/batch", json={"events": items})
    assert [item["status"] for item in answer.json()["data"]] == [202, 404]


@pytest.mark.parametrize("operation", LISTS, ids=str)
async def test_lists_show_nothing_of_another_tenant(
    make_tenant: Make, key_client: KeyClient, victim: dict[str, str], operation: Operation
) -> None:
    attacker = await make_tenant()
    filters = sorted(operation.queries & victim.keys())
    async with key_client(attacker["id"]) as theirs:
        for params in [{}, *({name: victim[name]} for name in filters)]:
            answer = await theirs.get(operation.path.format(**victim), params=params)
            assert answer.status_code in (200, 403, 404), answer.text
            if answer.status_code == 200:
                shown = answer.text
                assert not [name for name, value in victim.items() if value in shown], params


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
async def test_every_route_requires_a_key(
    app: FastAPI, victim: dict[str, str], operation: Operation
) -> None:
    path = operation.path.format(**victim, name=EVENT_TYPE)
    async with client_with(app, "hf_" + "x" * 43) as stranger:
        answer = await stranger.request(operation.method, path)
    assert answer.status_code == 401
    assert operation.document["security"] == [{"Bearer": []}]


FORBIDDEN = [
    *(("tenant:read", each) for each in OPERATIONS if each.method != "GET"),
    *(("emit", each) for each in OPERATIONS if str(each) not in EMITTING),
]


@pytest.mark.parametrize(("scope", "operation"), FORBIDDEN, ids=str)
async def test_narrow_key_can_do_nothing_beyond_its_scope(
    key_client: KeyClient, victim: dict[str, str], scope: str, operation: Operation
) -> None:
    path = operation.path.format(**victim, name=EVENT_TYPE)
    async with key_client(victim["tenant_id"], scope=scope) as theirs:
        answer = await theirs.request(operation.method, path, json={})
    assert answer.status_code == 403, answer.text

"""Sources: creation, validation, views, and rotation of secrets."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from api.context.context import Context
from hookfast.inbox.source_secrets import MAX_LIVE
from tests.integration.api.inbound import SECRET, send
from tests.support.api_client import Json, KeyClient, Make, assert_problem

pytestmark = pytest.mark.anyio


async def make(client: httpx2.AsyncClient, tenant: str, **members: Any) -> Json:
    form = {"tenant_id": tenant, "name": "x", "provider": "github"}
    answer = await client.post("/sources", json=form | members)
    assert answer.status_code == 201, answer.text
    document: Json = answer.json()
    return document


async def test_new_source_has_a_url_and_shows_its_secret_once(
    client: httpx2.AsyncClient, context: Context, tenant: str
) -> None:
    source = await make(client, tenant)
    assert source["url"] == f"{context.settings.resolved_public_url}/in/{source['id']}"
    assert (await send(client, source["id"], {}, secret=source["secret"])).status_code == 202
    path = f"/sources/{source['id']}"
    for answer in (
        await client.get(path),
        await client.get("/sources", params={"tenant_id": tenant}),
        await client.patch(path, json={"name": "y"}),
        await client.get("/audit", params={"resource_id": source["id"]}),
    ):
        assert answer.status_code == 200
        assert source["secret"] not in answer.text
        assert "sealed" not in answer.text


@pytest.mark.parametrize("provider", ["stripe", "shopify", "slack", "twilio", "standard", "hook"])
async def test_secret_is_required_if_the_provider_creates_it(
    client: httpx2.AsyncClient, tenant: str, provider: str
) -> None:
    form = {"tenant_id": tenant, "name": "x", "provider": provider}
    answer = await client.post("/sources", json=form)
    assert_problem(answer, 422, code="invalid_secret", pointer="/secrets")


@pytest.mark.parametrize(
    ("members", "code", "pointer"),
    [
        ({"provider": "gopher"}, "unknown_provider", "/provider"),
        ({"secrets": [SECRET, "hush"]}, "invalid_secret", "/secrets/1"),
        ({"secrets": []}, "invalid_input", "/secrets"),
        ({"options": {"no_such": 1}}, "invalid_options", "/options/no_such"),
        ({"allowed_networks": ["192.0.2.1/24"]}, "invalid_input", "/allowed_networks/0"),
        ({"event_types": {"**.x": "a.b.c"}}, "invalid_pattern", "/event_types/**.x"),
        ({"event_types": {"**": "a.B"}}, "invalid_event_type", "/event_types/**"),
        ({"event_types": {"**": "hookfast.a.b"}}, "reserved_event_type", "/event_types/**"),
        ({"id_expression": "["}, "invalid_expression", "/id_expression"),
        ({"idempotency": {"expression": "["}}, "invalid_expression", "/idempotency/expression"),
        ({"idempotency": {"window_seconds": 0}}, "invalid_input", "/idempotency/window_seconds"),
        ({"name": ""}, "invalid_input", "/name"),
        ({"tenant_id": None}, "invalid_input", "/tenant_id"),
    ],
)
async def test_invalid_source_is_rejected_at_the_faulty_member(
    client: httpx2.AsyncClient, tenant: str, members: Json, code: str, pointer: str
) -> None:
    form = {"tenant_id": tenant, "name": "x", "provider": "github", "secrets": [SECRET]}
    answer = await client.post("/sources", json=form | members)
    assert_problem(answer, 422, code=code, pointer=pointer)
    assert "hush" not in answer.text
    if members.keys().isdisjoint({"provider", "secrets", "tenant_id"}):
        source = await make(client, tenant)
        answer = await client.patch(f"/sources/{source['id']}", json=members)
        assert_problem(answer, 422, code=code, pointer=pointer)


async def test_change_of_a_source_takes_effect_at_once(
    client: httpx2.AsyncClient, tenant: str
) -> None:
    source = await make(client, tenant, secrets=[SECRET])
    assert (await send(client, source["id"], {})).status_code == 202
    for active, status in ((False, 404), (True, 202)):
        await client.patch(f"/sources/{source['id']}", json={"active": active})
        assert (await send(client, source["id"], {})).status_code == status
    answer = await client.patch(f"/sources/{source['id']}", json={"idempotency": {}})
    assert answer.json()["idempotency"] == {"expression": "suggested", "window_seconds": 86_400}
    answer = await client.patch(f"/sources/{source['id']}", json={"idempotency": None})
    assert answer.json()["idempotency"] is None


async def test_both_secrets_verify_after_a_rotation_until_the_old_one_expires(
    client: httpx2.AsyncClient, tenant: str
) -> None:
    source = await make(client, tenant, secrets=[SECRET])
    path = f"/sources/{source['id']}"
    made = (await client.post(f"{path}/rotate-secret", json={})).json()
    ends = [secret["expires_at"] for secret in made["secrets"]]
    assert ends[0] is None
    assert ends[1] is not None
    given = "another-secret-of-the-tests"
    for secret, status in ((SECRET, 202), (made["secret"], 202), (given, 401)):
        assert (await send(client, source["id"], {}, secret=secret)).status_code == status
    form = {"secret": given, "overlap_seconds": 0}
    answer = await client.post(f"{path}/rotate-secret", json=form)
    assert (answer.json()["secret"], len(answer.json()["secrets"])) == (None, 1)
    for secret, status in ((SECRET, 401), (made["secret"], 401), (given, 202)):
        assert (await send(client, source["id"], {}, secret=secret)).status_code == status


async def test_at_most_five_secrets_verify_at_once(client: httpx2.AsyncClient, tenant: str) -> None:
    source = await make(client, tenant)
    path = f"/sources/{source['id']}/rotate-secret"
    for _ in range(MAX_LIVE - 1):
        assert (await client.post(path)).status_code == 200
    assert_problem(await client.post(path), 409, code="too_many_secrets")
    assert (await client.post(path, json={"overlap_seconds": 0})).status_code == 200
    answer = await client.post(path, json={"secret": "short"})
    assert_problem(answer, 422, code="invalid_secret", pointer="/secret")


async def test_deleted_source_answers_404_and_keeps_its_inbox_entries(
    client: httpx2.AsyncClient, tenant: str
) -> None:
    source = await make(client, tenant, secrets=[SECRET])
    entry = (await send(client, source["id"], {})).json()["id"]
    path = f"/sources/{source['id']}"
    assert (await client.delete(path)).status_code == 204
    assert (await send(client, source["id"], {})).status_code == 404
    for answer in (await client.get(path), await client.get(f"{path}/stats")):
        assert_problem(answer, 404, code="not_found")
    assert (await client.get(f"/inbox/{entry}")).status_code == 200
    listed = await client.get("/inbox", params={"source_id": source["id"]})
    assert [row["id"] for row in listed.json()["data"]] == [entry]


async def test_sources_of_a_deleted_tenant_receive_nothing(
    client: httpx2.AsyncClient, make_tenant: Make
) -> None:
    tenant = (await make_tenant())["id"]
    source = await make(client, tenant, secrets=[SECRET])
    assert (await send(client, source["id"], {})).status_code == 202
    assert (await client.delete(f"/tenants/{tenant}")).status_code == 204
    assert (await send(client, source["id"], {})).status_code == 404


async def test_tenant_key_creates_sources_of_its_tenant(
    client: httpx2.AsyncClient, tenant: str, key_client: KeyClient
) -> None:
    async with key_client(tenant) as theirs:
        answer = await theirs.post("/sources", json={"name": "x", "provider": "gitea"})
        assert answer.status_code == 201, answer.text
        assert answer.json()["tenant_id"] == tenant
        listed = await theirs.get("/sources", params={"provider": "gitea"})
        assert [row["id"] for row in listed.json()["data"]] == [answer.json()["id"]]

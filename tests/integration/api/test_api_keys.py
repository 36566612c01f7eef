from __future__ import annotations

import asyncio
from datetime import timedelta

import httpx2
import pytest
from fastapi import FastAPI
from sqlalchemy import update

from api.context.context import Context
from hookfast.clock import rfc3339, utc_now
from hookfast.errors import Misconfigured
from hookfast.settings.settings import Settings
from hookfast.storage.accounts import api_keys
from hookfast.storage.database.engine import Database
from hookfast.storage.keys.new_keys import ensure_operator_key
from hookfast.storage.tables import ApiKey
from tests.support.api_client import OPERATOR_KEY, KeyClient, Make, assert_problem, client_with

pytestmark = pytest.mark.anyio


async def test_it_shows_a_key_once_and_never_stores_it(
    client: httpx2.AsyncClient, context: Context, make_tenant: Make
) -> None:
    tenant = await make_tenant()
    path = f"/tenants/{tenant['id']}/api-keys"
    created = (await client.post(path, json={"name": "backend", "scope": "tenant:read"})).json()
    key = created.pop("key")
    assert key.startswith("hf_")
    assert len(key) == 46
    assert key.startswith(created["hint"].rstrip("…"))
    assert (await client.get(path)).json()["data"] == [created]
    async with context.database.read() as connection:
        row = await api_keys.get(connection, created["id"])
    assert row is not None
    assert key not in repr(row)


async def test_revoked_key_stops_working_at_once_in_this_process(
    app: FastAPI, client: httpx2.AsyncClient, make_tenant: Make
) -> None:
    tenant = await make_tenant()
    created = (await client.post(f"/tenants/{tenant['id']}/api-keys", json={"name": "x"})).json()
    async with client_with(app, created["key"]) as theirs:
        assert (await theirs.get("/endpoints")).status_code == 200
        assert (await theirs.delete(f"/api-keys/{created['id']}")).status_code == 204
        assert_problem(await theirs.get("/endpoints"), 401, code="invalid_key")
    assert_problem(await client.delete(f"/api-keys/{created['id']}"), 404, code="not_found")
    assert (await client.get(f"/tenants/{tenant['id']}/api-keys")).json()["data"] == []


async def test_a_key_stops_working_when_it_expires(
    app: FastAPI, client: httpx2.AsyncClient, make_tenant: Make
) -> None:
    tenant = await make_tenant()
    path = f"/tenants/{tenant['id']}/api-keys"
    soon = rfc3339(utc_now() + timedelta(seconds=0.5))
    created = (await client.post(path, json={"name": "x", "expires_at": soon})).json()
    async with client_with(app, created["key"]) as theirs:
        assert (await theirs.get("/endpoints")).status_code == 200
        await asyncio.sleep(0.6)
        assert_problem(await theirs.get("/endpoints"), 401, code="invalid_key")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"name": "x", "scope": "operator"}, "/scope"),
        ({"name": "x", "scope": "admin"}, "/scope"),
        ({"scope": "tenant"}, "/name"),
        ({"name": "x", "expires_at": "2001-01-01T00:00:00Z"}, "/expires_at"),
        ({"name": "x", "expires_at": "2101-01-01T00:00:00"}, "/expires_at"),
        ({"name": "x", "expires_at": "2101-02-30T00:00:00Z"}, "/expires_at"),
        ({"name": "x", "expires_at": "0001-01-01T00:00:00+23:59"}, "/expires_at"),
        ({"name": "x", "expires_at": 4133980800}, "/expires_at"),
        ({"name": "x", "key": "hf_mine"}, "/key"),
    ],
)
async def test_invalid_key_is_rejected(
    common_client: httpx2.AsyncClient, common_tenant: str, body: dict[str, object], pointer: str
) -> None:
    answer = await common_client.post(f"/tenants/{common_tenant}/api-keys", json=body)
    assert_problem(answer, 422, code="invalid_input", pointer=pointer)


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Basic b3A6b3A=",
        f"Token {OPERATOR_KEY}",
        "Bearer hf_short",
        "Bearer " + "x" * 60,
        "Bearer hf_" + "unknown-but-well-formed-" * 2,
        f"Bearer {OPERATOR_KEY}x",
        "Bearer hf_\xff" + "x" * 40,
    ],
)
async def test_request_without_a_valid_key_answers_401(
    common_app: FastAPI, header: str | None
) -> None:
    headers = [] if header is None else [(b"authorization", header.encode("latin-1"))]
    async with client_with(common_app, "") as client:
        del client.headers["authorization"]
        answer = await client.get("/tenants", headers=headers)
    code = "invalid_key" if (header or "").startswith("Bearer ") and header != "Bearer " else None
    problem = assert_problem(answer, 401, code=code or "unauthenticated")
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert "hf_short" not in str(problem)


async def test_bearer_scheme_is_case_insensitive(app: FastAPI) -> None:
    async with client_with(app, OPERATOR_KEY) as client:
        client.headers["authorization"] = f"bEARER {OPERATOR_KEY}"
        assert (await client.get("/tenants")).status_code == 200


async def test_authentication_comes_before_the_body_is_read(app: FastAPI) -> None:
    async with client_with(app, "hf_" + "x" * 43) as client:
        answer = await client.post("/tenants", content=b"{", headers={"content-type": "text/x"})
        assert_problem(answer, 401, code="invalid_key")


@pytest.mark.parametrize(
    ("scope", "method", "path", "status"),
    [
        ("tenant", "GET", "/endpoints", 200),
        ("tenant", "POST", "/endpoints", 422),  # allowed; the body is wrong
        ("tenant", "POST", "/tenants", 403),
        ("tenant", "GET", "/api-keys", 403),
        ("tenant", "PUT", "/event-types/order.invoice.paid", 403),
        ("tenant:read", "GET", "/endpoints", 200),
        ("tenant:read", "GET", "/event-types", 200),
        ("tenant:read", "POST", "/endpoints", 403),
        ("emit", "GET", "/endpoints", 403),
        ("emit", "GET", "/event-types", 403),
        ("emit", "POST", "/subscriptions", 403),
    ],
)
async def test_key_may_do_what_its_scope_allows(
    make_tenant: Make, key_client: KeyClient, scope: str, method: str, path: str, status: int
) -> None:
    tenant = await make_tenant()
    valid = {"PUT": {}, "POST": {"name": "x"}}.get(method)
    if (scope, path) == ("tenant:read", "/endpoints"):
        valid = {"url": "http://127.0.0.1:4/"}
    if path == "/subscriptions":
        valid = {"endpoint_id": "ep_" + "0" * 32, "events": ["**"]}
    async with key_client(tenant["id"], scope=scope) as theirs:
        answer = await theirs.request(method, path, json=valid)
    assert answer.status_code == status, answer.text
    if status == 403:
        assert_problem(answer, 403, code="forbidden")


async def test_operator_creates_keys_and_cannot_revoke_the_last(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    first = (await client.get("/api-keys")).json()["data"][0]
    assert_problem(await client.delete(f"/api-keys/{first['id']}"), 409, code="last_operator_key")
    second = (await client.post("/api-keys", json={"name": "2", "scope": "operator"})).json()
    assert second["tenant_id"] is None
    assert (await client.delete(f"/api-keys/{first['id']}")).status_code == 204
    async with client_with(app, second["key"]) as other:
        answer = await other.delete(f"/api-keys/{second['id']}")
        assert_problem(answer, 409, code="last_operator_key")
        assert (await other.get("/tenants")).status_code == 200


async def test_tenant_can_revoke_its_keys_when_all_operator_keys_have_expired(
    context: Context, make_tenant: Make, key_client: KeyClient
) -> None:
    tenant = (await make_tenant())["id"]
    async with key_client(tenant) as theirs:
        leaked = (await theirs.post(f"/tenants/{tenant}/api-keys", json={"name": "x"})).json()
        keys = ApiKey.__table__
        async with context.database.write() as connection:
            await connection.execute(
                update(keys)
                .where(keys.c.scope == "operator")
                .values(expires_at=utc_now() - timedelta(days=1))
            )
        answer = await theirs.delete(f"/api-keys/{leaked['id']}")
        assert answer.status_code == 204, answer.text


async def test_last_use_of_a_key_is_recorded(client: httpx2.AsyncClient, context: Context) -> None:
    first = (await client.get("/api-keys")).json()["data"][0]
    assert first["last_used_at"] is None
    await context.keys.record_use()
    noted = (await client.get("/api-keys")).json()["data"][0]
    assert noted["last_used_at"] is not None


async def test_many_processes_create_one_operator_key(
    database_url: str, database: Database, settings: Settings
) -> None:
    unset = settings.model_copy(update={"operator_key": None})
    others = [Database(database_url) for _ in range(4)]
    try:
        made = await asyncio.gather(
            *(ensure_operator_key(other, unset, clock=utc_now) for other in others)
        )
    finally:
        for other in others:
            await other.close()
    assert len([key for key in made if key is not None]) == 1
    async with database.read() as connection:
        assert await api_keys.count_operator_keys(connection, at=utc_now()) == 1


async def test_key_in_the_settings_is_created_once_and_never_returned(
    database: Database, settings: Settings
) -> None:
    for _ in range(2):
        assert await ensure_operator_key(database, settings, clock=utc_now) is None
    async with database.read() as connection:
        assert await api_keys.count_operator_keys(connection, at=utc_now()) == 1


async def test_a_revoked_key_in_the_settings_is_a_misconfiguration(
    client: httpx2.AsyncClient, context: Context, settings: Settings
) -> None:
    first = (await client.get("/api-keys")).json()["data"][0]
    await client.post("/api-keys", json={"name": "2", "scope": "operator"})
    await client.delete(f"/api-keys/{first['id']}")
    with pytest.raises(Misconfigured, match="HOOKFAST_OPERATOR_KEY"):
        await ensure_operator_key(context.database, settings, clock=utc_now)

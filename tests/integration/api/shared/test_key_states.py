"""Which keys may call which routes: every state and scope of a key on every route of the OpenAPI
document. An allowed request fails only at its input, which is invalid on purpose."""

from __future__ import annotations

from datetime import timedelta

import httpx2
import pytest
from fastapi import FastAPI

from api.context.context import Context
from hookfast.storage.accounts import api_keys
from hookfast.storage.accounts.api_keys import Scope
from hookfast.storage.keys.new_keys import key_record, new_key
from tests.integration.api.shared.operations import EMITTING, OPERATIONS, UNKNOWN, Operation
from tests.support.api_client import Make, assert_problem, client_with

pytestmark = pytest.mark.anyio

# operations for the operator only; tenants may do all others with their own objects
OPERATORS = {
    "POST /tenants",
    "GET /tenants",
    "PATCH /tenants/{tenant_id}",
    "DELETE /tenants/{tenant_id}",
    "POST /api-keys",
    "GET /api-keys",
    "PUT /event-types/{name}",
    "DELETE /event-types/{name}",
    "GET /retention",
    "POST /retention/runs",
}
# responses that do not end, unless the request has an invalid start
ENDLESS = {"GET /stream": {"after": "nowhere"}}
# operations that show keys
NOT_FOR_READERS = {"GET /tenants/{tenant_id}/api-keys"}
PREFIXES = {
    "tenant_id": "tnt",
    "endpoint_id": "ep",
    "subscription_id": "sub",
    "event_id": "evt",
    "delivery_id": "dlv",
    "job_id": "job",
    "key_id": "key",
    "source_id": "src",
    "inbox_id": "inb",
    "test_id": "dlv",
}


def _may(scope: str, operation: Operation) -> bool:
    name = str(operation)
    match scope:
        case "operator":
            return True
        case "tenant":
            return name not in OPERATORS
        case "tenant:read":
            return operation.method == "GET" and name not in OPERATORS | NOT_FOR_READERS
        case _:
            return name in EMITTING


def _path(operation: Operation) -> str:
    """Return the path with ids of objects that do not exist."""
    ids = {name: f"{prefix}_{UNKNOWN}" for name, prefix in PREFIXES.items()}
    return operation.path.format(**ids, name="no.such.type")


async def _ask(client: httpx2.AsyncClient, operation: Operation) -> httpx2.Response:
    return await client.request(
        operation.method, _path(operation), params={"no-such-parameter": "1"}
    )


@pytest.fixture
async def keys(context: Context, make_tenant: Make) -> dict[str, str]:
    """A key of each scope, and three invalid ones: expired, revoked, and of a deleted tenant."""
    tenant = (await make_tenant())["id"]
    gone = (await make_tenant(name="Gone"))["id"]
    made = {}
    now = context.clock()

    async def add(name: str, *, scope: Scope, tenant_id: str | None, **changes: object) -> None:
        made[name] = new_key()
        record = key_record(
            made[name], scope=scope, tenant_id=tenant_id, name=name, clock=context.clock
        )
        for member, value in changes.items():
            setattr(record, member, value)
        async with context.database.write() as connection:
            await api_keys.add(connection, record)

    await add("operator", scope="operator", tenant_id=None)
    await add("tenant", scope="tenant", tenant_id=tenant)
    await add("tenant:read", scope="tenant:read", tenant_id=tenant)
    await add("emit", scope="emit", tenant_id=tenant)
    await add("expired", scope="operator", tenant_id=None, expires_at=now - timedelta(seconds=1))
    await add("revoked", scope="operator", tenant_id=None, revoked_at=now)
    await add("orphan", scope="tenant", tenant_id=gone)
    return made


@pytest.fixture
async def orphaned(client: httpx2.AsyncClient, keys: dict[str, str]) -> dict[str, str]:
    """The same keys, after the tenant of `orphan` was deleted."""
    for tenant in (await client.get("/tenants")).json()["data"]:
        if tenant["name"] == "Gone":
            assert (await client.delete(f"/tenants/{tenant['id']}")).status_code == 204
    return keys


@pytest.mark.parametrize("scope", ["operator", "tenant", "tenant:read", "emit"])
async def test_scope_allows_only_its_own_operations(
    app: FastAPI, keys: dict[str, str], scope: str
) -> None:
    async with client_with(app, keys[scope]) as client:
        for operation in OPERATIONS:
            path = _path(operation)
            answer = await client.request(
                operation.method,
                path,
                json={"no_such_member": 1},
                params=ENDLESS.get(str(operation)),
            )
            is_allowed = answer.status_code != 403
            assert answer.status_code in (200, 204, 403, 404, 409, 422), (operation, answer.text)
            assert is_allowed == _may(scope, operation), (str(operation), answer.text)


@pytest.mark.parametrize("state", ["expired", "revoked", "orphan"])
async def test_expired_or_revoked_key_is_rejected_everywhere(
    app: FastAPI, orphaned: dict[str, str], state: str
) -> None:
    async with client_with(app, orphaned[state]) as client:
        for operation in OPERATIONS:
            answer = await _ask(client, operation)
            assert_problem(answer, 401, code="invalid_key")
            assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer "},
        {"Authorization": "Basic aGY6"},
        {"Cookie": "key=hf_", "X-Api-Key": "hf_"},
    ],
    ids=repr,
)
async def test_request_without_a_key_is_rejected_everywhere(
    app: FastAPI, headers: dict[str, str]
) -> None:
    transport = httpx2.ASGITransport(app)
    async with httpx2.AsyncClient(
        transport=transport, base_url="http://hookfast.test/v1", headers=headers
    ) as client:
        for operation in OPERATIONS:
            assert_problem(await _ask(client, operation), 401, code="unauthenticated")


async def test_key_in_a_url_is_rejected(app: FastAPI, keys: dict[str, str]) -> None:
    """A key in a query or a path would be written to the logs of every proxy on the way."""
    transport = httpx2.ASGITransport(app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://hookfast.test") as client:
        for name in ("access_token", "api_key", "key", "token"):
            answer = await client.get("/v1/endpoints", params={name: keys["operator"]})
            assert_problem(answer, 401, code="unauthenticated")
            assert keys["operator"] not in answer.text

"""A new URL on another host: nobody but the operator keeps the endpoint's credentials for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
import trustme

from api.context.context import Context
from hookfast.endpoints.credentials import Access, Bearer, OAuth2, open_credentials
from hookfast.endpoints.secrets import open_headers
from hookfast.storage.endpoints import endpoints
from tests.support.api_client import Json, KeyClient, Make, assert_problem
from tests.support.certificates import client_identity, pem
from tests.support.receiver import Receiver

pytestmark = pytest.mark.anyio

AUTHORITY = trustme.CA()
BEARER = {"kind": "bearer", "token": "stored-t0ken"}
BASIC = {"kind": "basic", "username": "shop", "password": "passw0rd"}
NEW_BEARER = {"kind": "bearer", "token": "new-t0ken"}
OAUTH2 = {
    "kind": "oauth2",
    "token_url": "https://127.0.0.1:4/token",
    "client_id": "shop",
    "client_secret": "cl1ent-secret",
}
HEADERS = {"X-Api-Key": "stored-key", "X-Other": "stored-other"}
URL = "https://127.0.0.1:4/hook?v=1"
ELSEWHERE = (
    "http://127.0.0.1:4/hook?v=1",
    "https://127.0.0.1/hook?v=1",
    "https://127.0.0.1:5/hook?v=1",
    "https://127.0.0.2:4/hook?v=1",
    "https://localhost:4/hook?v=1",
    "https://127.0.0.1.example:4/hook?v=1",
)


@pytest.fixture
async def tenant_id(make_tenant: Make) -> str:
    return str((await make_tenant())["id"])


@pytest.fixture
async def tenant(key_client: KeyClient, tenant_id: str) -> AsyncIterator[httpx2.AsyncClient]:
    """A client with a tenant's key."""
    async with key_client(tenant_id) as client:
        yield client


@pytest.fixture
def make(make_endpoint: Make, tenant_id: str) -> Make:
    async def new(**members: Any) -> str:
        endpoint = await make_endpoint(tenant_id=tenant_id, **{"url": URL} | members)
        return f"/endpoints/{endpoint['id']}"

    return new  # type: ignore[return-value]


async def stored(context: Context, path: str) -> tuple[str, Access, dict[str, str]]:
    """Return the URL, the credentials and the custom headers that requests have."""
    endpoint_id = path.rpartition("/")[2]
    async with context.database.read() as connection:
        row = await endpoints.get(connection, endpoint_id)
    assert row is not None
    access = open_credentials(
        row.credentials, context.keyring, endpoint_id=endpoint_id, now=context.clock()
    )
    headers = open_headers(row.headers, context.keyring, endpoint_id=endpoint_id)
    return row.url, access, headers


def pointers(problem: Json) -> list[str]:
    return [error["pointer"] for error in problem["errors"]]


@pytest.mark.parametrize("url", ELSEWHERE)
async def test_another_origin_asks_for_every_credential(
    tenant: httpx2.AsyncClient, context: Context, make: Make, url: str
) -> None:
    path = await make(headers=HEADERS, authentication=BEARER)
    if url.startswith("https"):
        await tenant.put(f"{path}/tls", json=client_identity(AUTHORITY))
    before = await stored(context, path)
    answer = await tenant.patch(path, json={"url": url, "description": "moved"})
    problem = assert_problem(answer, 422, code="credentials_required")
    tls = ["/tls"] if url.startswith("https") else []
    assert pointers(problem) == ["/authentication", "/headers/X-Api-Key", "/headers/X-Other", *tls]
    assert "Send them again with the URL" in problem["detail"]
    assert await stored(context, path) == before
    assert (await tenant.get(path)).json()["description"] == ""


@pytest.mark.parametrize(
    ("members", "patch", "missing"),
    [
        ({"headers": HEADERS}, {"headers": {"X-Api-Key": "new-key"}}, ["/headers/X-Other"]),
        ({"headers": HEADERS}, {"headers": {}}, ["/headers/X-Api-Key", "/headers/X-Other"]),
        (
            {"headers": HEADERS},
            {"authentication": None},
            ["/headers/X-Api-Key", "/headers/X-Other"],
        ),
        ({"headers": {"X~A": "x"}}, {}, ["/headers/X~0A"]),
        ({"authentication": BEARER}, {"headers": None, "tls": None}, ["/authentication"]),
        ({"authentication": OAUTH2}, {"headers": {"X-New": "x"}}, ["/authentication"]),
        ({"tls": client_identity(AUTHORITY)}, {"authentication": NEW_BEARER}, ["/tls"]),
    ],
)
async def test_what_is_missing_is_named(
    tenant: httpx2.AsyncClient, make: Make, members: Json, patch: Json, missing: list[str]
) -> None:
    path = await make(**members)
    answer = await tenant.patch(path, json={"url": ELSEWHERE[2]} | patch)
    assert pointers(assert_problem(answer, 422, code="credentials_required")) == missing


async def test_the_new_origin_gets_no_stored_credential_before_it_is_refused(
    tenant: httpx2.AsyncClient, make: Make
) -> None:
    path = await make(headers=HEADERS, authentication=BEARER)
    async with Receiver() as receiver:
        patch = {"url": receiver.url("/challenge"), "verification": "header"}
        answer = await tenant.patch(path, json=patch)
    assert_problem(answer, 422, code="credentials_required")
    assert receiver.requests == []


async def test_credentials_given_with_the_url_replace_the_stored_ones_at_once(
    tenant: httpx2.AsyncClient, context: Context, make: Make
) -> None:
    path = await make(headers=HEADERS, authentication=BASIC)
    await tenant.put(f"{path}/authentication", json=BEARER)  # the other one is kept for a day
    async with Receiver() as receiver:
        patch = {
            "url": receiver.url("/challenge"),
            "verification": "header",
            "authentication": NEW_BEARER | {"overlap_seconds": 3600},
            "headers": {"X-Api-Key": "new-key", "X-Other": None, "X-More": "more"},
        }
        answer = await tenant.patch(path, json=patch)
        assert answer.status_code == 200, answer.text
        # so that what the new host rejects is not repeated with an old credential
        assert await stored(context, path) == (
            receiver.url("/challenge"),
            Access((Bearer("new-t0ken"),)),
            {"X-Api-Key": "new-key", "X-More": "more"},
        )
        [request] = receiver.requests
    assert request.headers["authorization"] == "Bearer new-t0ken"
    assert answer.json()["authentication"]["previous_expires_at"] is None
    assert "t0ken" not in answer.text
    entries = (await tenant.get("/audit", params={"resource_id": answer.json()["id"]})).json()
    change = entries["data"][0]
    assert change["action"] == "endpoint.update"
    assert {"url", "credentials", "headers.X-Api-Key", "headers.X-Other"} <= set(change["changes"])
    assert not [one for one in ("t0ken", "new-key", "stored") if one in str(change)]


async def test_credentials_are_removed_with_the_url(
    tenant: httpx2.AsyncClient, context: Context, make: Make
) -> None:
    path = await make(headers=HEADERS, authentication=OAUTH2, tls=client_identity(AUTHORITY))
    nothing = {"headers": None, "authentication": None, "tls": None}
    answer = await tenant.patch(path, json={"url": "http://127.0.0.1:4/"} | nothing)
    assert answer.status_code == 200, answer.text
    assert await stored(context, path) == ("http://127.0.0.1:4/", Access(), {})


async def test_credentials_that_do_not_fit_the_new_url_are_rejected(
    tenant: httpx2.AsyncClient, context: Context, make: Make
) -> None:
    path = await make(authentication=BEARER)
    before = await stored(context, path)
    for patch, code, pointer in (
        ({"authentication": {"kind": "bearer"}}, "invalid_input", "/authentication/token"),
        ({"authentication": {"kind": "digest"}}, "invalid_input", "/authentication/kind"),
        (
            {"authentication": OAUTH2 | {"token_url": "https://10.0.0.1/"}},
            "invalid_input",
            "/authentication/token_url",
        ),
        (
            {"authentication": BEARER, "headers": {"Authorization": "x"}},
            "invalid_header",
            "/headers/Authorization",
        ),
        (
            {"authentication": BEARER, "tls": {"authorities": "x"}},
            "invalid_input",
            "/tls/authorities",
        ),
        (
            {"url": "http://127.0.0.1:4/", "authentication": BEARER, "tls": {"authorities": "x"}},
            "invalid_input",
            "/tls",
        ),
    ):
        answer = await tenant.patch(path, json={"url": ELSEWHERE[2]} | patch)
        assert_problem(answer, 422, code=code, pointer=pointer)
    assert await stored(context, path) == before
    # instead of the authentication
    patch = {"authentication": None, "headers": {"Authorization": "Token new"}}
    answer = await tenant.patch(path, json={"url": ELSEWHERE[2]} | patch)
    assert answer.status_code == 200, answer.text
    assert await stored(context, path) == (ELSEWHERE[2], Access(), {"Authorization": "Token new"})


@pytest.mark.parametrize("url", ["https://127.0.0.1:4/other", "https://127.0.0.1:4?v=2", URL])
async def test_the_same_origin_keeps_them(
    tenant: httpx2.AsyncClient, context: Context, make: Make, url: str
) -> None:
    path = await make(headers=HEADERS, authentication=BEARER)
    assert (await tenant.patch(path, json={"url": url})).status_code == 200
    assert await stored(context, path) == (url, Access((Bearer("stored-t0ken"),)), HEADERS)
    for member in ({"authentication": NEW_BEARER}, {"tls": None}):
        answer = await tenant.patch(path, json={"url": url} | member)
        assert_problem(answer, 422, code="invalid_input", pointer=f"/{next(iter(member))}")


async def test_an_endpoint_without_credentials_moves_freely(
    tenant: httpx2.AsyncClient, make: Make
) -> None:
    path = await make(tls={"authorities": pem(AUTHORITY)})  # whom we trust is no secret
    answer = await tenant.patch(path, json={"url": ELSEWHERE[2]})
    assert answer.status_code == 200, answer.text
    assert answer.json()["tls"] is not None


async def test_a_replaced_client_certificate_is_asked_for_while_it_is_tried(
    tenant: httpx2.AsyncClient, context: Context, make: Make
) -> None:
    path = await make(tls=client_identity(AUTHORITY))
    await tenant.put(f"{path}/tls", json={"authorities": pem(AUTHORITY)})
    answer = await tenant.patch(path, json={"url": ELSEWHERE[2]})
    assert pointers(assert_problem(answer, 422, code="credentials_required")) == ["/tls"]
    trusting = {"authorities": pem(AUTHORITY)}
    answer = await tenant.patch(path, json={"url": ELSEWHERE[2], "tls": trusting})
    assert answer.status_code == 200, answer.text
    _, access, _ = await stored(context, path)
    assert [identity.certificate for identity in access.tls] == [None]


async def test_the_operator_keeps_them_or_gives_new_ones(
    client: httpx2.AsyncClient, context: Context, make: Make
) -> None:
    path = await make(headers=HEADERS, authentication=BEARER)
    assert (await client.patch(path, json={"url": ELSEWHERE[2]})).status_code == 200
    assert await stored(context, path) == (ELSEWHERE[2], Access((Bearer("stored-t0ken"),)), HEADERS)
    answer = await client.patch(path, json={"url": URL, "authentication": NEW_BEARER})
    assert answer.status_code == 200, answer.text
    assert await stored(context, path) == (URL, Access((Bearer("new-t0ken"),)), HEADERS)


async def test_another_token_url_needs_the_client_secret_again(
    tenant: httpx2.AsyncClient, context: Context, make: Make
) -> None:
    path = await make(authentication=OAUTH2)
    without = {name: value for name, value in OAUTH2.items() if name != "client_secret"}
    other = without | {"token_url": "https://127.0.0.1:5/token"}
    answer = await tenant.put(f"{path}/authentication", json=other)
    assert_problem(answer, 422, code="invalid_input", pointer="/client_secret")
    answer = await tenant.patch(path, json={"url": ELSEWHERE[2], "authentication": other})
    assert_problem(answer, 422, code="invalid_input", pointer="/authentication/client_secret")
    fresh = other | {"client_secret": "new-secret"}
    assert (await tenant.put(f"{path}/authentication", json=fresh)).status_code == 200
    _, access, _ = await stored(context, path)
    # the replaced one is sent to its own token endpoint only
    assert access.authentication == (OAuth2(**_plain(fresh)), OAuth2(**_plain(OAUTH2)))


def _plain(form: Json) -> Json:
    return {name: value for name, value in form.items() if name != "kind"}

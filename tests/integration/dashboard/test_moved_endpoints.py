"""The forms that give an endpoint a URL on another host, on both sites, without script."""

from __future__ import annotations

import re
from typing import Any

import httpx2
import pytest
import trustme
from fastapi import FastAPI

from api.context.context import Context
from hookfast.endpoints.credentials import (
    Access,
    Basic,
    Bearer,
    OAuth2,
    TlsIdentity,
    open_credentials,
)
from hookfast.endpoints.secrets import open_headers
from hookfast.storage.endpoints import endpoints
from tests.integration.dashboard.resources import new_endpoint, new_tenant
from tests.integration.dashboard.visitor import Forms, Visitor, signed_in, tenant_visitor, text_of
from tests.integration.portal.links import customer
from tests.support.api_client import OPERATOR_KEY
from tests.support.certificates import client_identity

pytestmark = pytest.mark.anyio

IDENTITY = client_identity(trustme.CA())
HEADERS = {"X-Api-Key": "stored-key", "X-Other": "stored-other"}
URL, MOVED = "https://127.0.0.1:4/hook", "https://127.0.0.1:5/hook"
OAUTH2 = {
    "kind": "oauth2",
    "token_url": "https://127.0.0.1:4/token",
    "client_id": "shop",
    "client_secret": "cl1ent-secret",
    "scope": "write",
}


async def stored(context: Context, endpoint_id: str) -> tuple[str, Access, dict[str, str]]:
    async with context.database.read() as connection:
        row = await endpoints.get(connection, endpoint_id)
    assert row is not None
    access = open_credentials(
        row.credentials, context.keyring, endpoint_id=endpoint_id, now=context.clock()
    )
    headers = open_headers(row.headers, context.keyring, endpoint_id=endpoint_id)
    return row.url, access, headers


async def fields_of(visitor: Visitor, path: str) -> dict[str, str]:
    """The fields of a settings form that stay as they are."""
    page = (await visitor.get(path)).text
    [seen] = set(re.findall(r'name="seen" value="([^"]+)"', page))
    return {"seen": seen, "verification": "none", "signatures": "standard", "plan": "hourly"}


async def refused(visitor: Visitor, path: str, **fields: Any) -> str:
    answer = await visitor.post(path, **fields)
    assert answer.status_code == 422, answer.text
    for secret in ("stored-key", "stored-other", "stored-t0ken", "cl1ent-secret"):
        assert secret not in answer.text
    return answer.text


@pytest.mark.parametrize("form", ["settings", "settings/url"])
async def test_the_dashboard_asks_a_tenant_for_headers_and_a_token(
    app: FastAPI, client: httpx2.AsyncClient, context: Context, form: str
) -> None:
    tenant = await new_tenant(client)
    bearer = {"kind": "bearer", "token": "stored-t0ken"}
    endpoint = await new_endpoint(client, tenant, url=URL, headers=HEADERS, authentication=bearer)
    path = f"/dashboard/endpoints/{endpoint}/{form}"
    async with tenant_visitor(app, client, tenant) as visitor:
        fields = await fields_of(visitor, path)
        assert 'name="token"' not in (await visitor.get(path)).text
        page = await refused(visitor, path, url=MOVED, **fields)
        assert (
            "every request would carry the stored credentials to it. Enter them again for it, or "
            "remove them: the authentication, the header X-Api-Key, the header X-Other."
        ) in text_of(page)
        assert f'value="{MOVED}"' in page
        [moved] = {one[2]["moved"] for one in Forms(page).found if "moved" in one[2]}
        fields |= {"moved": moved, "headers": "X-Api-Key: new-key"}
        page = await refused(visitor, path, url=MOVED, **fields)
        assert "remove them: the authentication, the header X-Other." in text_of(page)
        assert 'name="token" value=""' in page
        assert (await stored(context, endpoint))[0] == URL
        page = await refused(
            visitor, path, url=MOVED, **fields, token="two words", remove="X-Other"
        )
        assert "visible ASCII" in text_of(page)
        await visitor.submit(path, url=MOVED, **fields, token="new-t0ken", remove="X-Other")
    expected = (MOVED, Access((Bearer("new-t0ken"),)), {"X-Api-Key": "new-key"})
    assert await stored(context, endpoint) == expected


@pytest.mark.parametrize(
    ("authentication", "entered", "expected"),
    [
        (
            {"kind": "basic", "username": "shop", "password": "stored-t0ken"},
            {"username": "other", "password": "new: passw0rd"},
            (Basic("other", "new: passw0rd"),),
        ),
        (
            OAUTH2,
            {"client_secret": "new-secret"},
            (OAuth2(OAUTH2["token_url"], "shop", "new-secret", scope="write"),),
        ),
        (OAUTH2, {"without_authentication": "yes"}, ()),
    ],
)
async def test_a_portal_link_asks_for_the_authentication_and_the_tls_identity(
    app: FastAPI,
    client: httpx2.AsyncClient,
    context: Context,
    authentication: dict[str, str],
    entered: dict[str, str],
    expected: tuple[Any, ...],
) -> None:
    tenant = await new_tenant(client)
    endpoint = await new_endpoint(
        client, tenant, url=URL, headers=HEADERS, authentication=authentication, tls=IDENTITY
    )
    async with customer(app, client, tenant, endpoint_id=endpoint) as visitor:
        path = f"/portal/endpoints/{endpoint}/edit"
        fields = await fields_of(visitor, path) | {"url": MOVED}
        page = await refused(visitor, path, **fields)
        assert "remove them: the authentication, the header X-Api-Key" in text_of(page)
        fields |= {"moved": "yes", "remove": ["X-Api-Key", "X-Other"]} | entered
        page = await refused(visitor, path, **fields)
        assert "remove them: the TLS identity." in text_of(page)
        assert 'name="private_key"' in page
        page = await visitor.submit(path, **fields, **IDENTITY)
        assert "The settings are saved." in text_of(page)
        tls = (TlsIdentity(**IDENTITY).cleaned(),)
        assert await stored(context, endpoint) == (MOVED, Access(expected, tls), {})


async def test_a_person_who_goes_back_to_the_old_host_need_not_enter_anything(
    app: FastAPI, client: httpx2.AsyncClient, context: Context
) -> None:
    tenant = await new_tenant(client)
    endpoint = await new_endpoint(client, tenant, url=URL, authentication=OAUTH2, tls=IDENTITY)
    before = await stored(context, endpoint)
    async with customer(app, client, tenant) as visitor:
        path = f"/portal/endpoints/{endpoint}/edit"
        fields = await fields_of(visitor, path)
        wrong = await refused(visitor, path, url="ftp://127.0.0.1/", moved="yes", **fields)
        assert 'name="moved" value="yes"' in wrong
        same = URL + "?v=2"
        await visitor.submit(
            path, url=same, moved="yes", client_secret="x", without_tls="yes", **fields
        )
        assert await stored(context, endpoint) == (same, *before[1:])
        await visitor.submit(
            path,
            **await fields_of(visitor, path),
            url="http://127.0.0.1:4/",
            moved="yes",
            without_authentication="yes",
            without_tls="yes",
        )
    assert await stored(context, endpoint) == ("http://127.0.0.1:4/", Access(), {})


async def test_the_operator_is_not_asked(
    app: FastAPI, client: httpx2.AsyncClient, context: Context
) -> None:
    tenant = await new_tenant(client)
    endpoint = await new_endpoint(client, tenant, url=URL, headers=HEADERS)
    async with signed_in(app, OPERATOR_KEY) as visitor:
        path = f"/dashboard/endpoints/{endpoint}/settings/url"
        await visitor.submit(path, url=MOVED, **await fields_of(visitor, path))
    assert await stored(context, endpoint) == (MOVED, Access(), HEADERS)

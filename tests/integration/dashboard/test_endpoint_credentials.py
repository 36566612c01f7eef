"""The forms of an endpoint's authentication and TLS identity, without script."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import httpx2
import pytest
import trustme
from fastapi import FastAPI

from tests.integration.dashboard.resources import new_endpoint, new_tenant
from tests.integration.dashboard.visitor import Forms, tenant_visitor, text_of
from tests.integration.portal.links import customer
from tests.support.certificates import client_identity, pem

pytestmark = pytest.mark.anyio

AUTHORITY = trustme.CA()
OAUTH2 = {
    "kind": "oauth2",
    "token_url": "https://127.0.0.1:4/token",
    "client_id": "shop-client",
    "client_secret": "cl1ent-secret",
    "scope": "deliver",
    "client_authentication": "body",
    "overlap": "0",
}


async def test_an_authentication_is_set_replaced_and_removed_without_showing_a_secret(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    tenant = await new_tenant(client)
    endpoint_id = await new_endpoint(client, tenant)
    path = f"/dashboard/endpoints/{endpoint_id}"
    async with tenant_visitor(app, client, tenant) as visitor:
        assert 'name="client_secret"' in (await visitor.get(f"{path}/authentication")).text
        wrong = await visitor.post(
            f"{path}/authentication", **OAUTH2 | {"token_url": "https://10.0.0.1/"}
        )
        assert wrong.status_code == 422
        assert "10.0.0.1 is blocked" in text_of(wrong.text)
        assert 'value="shop-client"' in wrong.text  # the typed input is still there
        assert "cl1ent-secret" not in wrong.text
        page = await visitor.submit(f"{path}/authentication", **OAUTH2)
        assert "OAuth 2.0, client shop-client at https://127.0.0.1:4/token" in text_of(page)
        assert "cl1ent-secret" not in page

        form = (await visitor.get(f"{path}/authentication", params={"kind": "basic"})).text
        assert 'name="password" value=""' in form
        assert "Replace" in text_of(form)
        assert "Kind OAuth 2.0 Client id shop-client" in text_of(form)
        basic = {"kind": "basic", "username": "shop", "password": "passw0rd", "overlap": "3600"}
        page = await visitor.submit(f"{path}/authentication", **basic)
        assert "user name shop and a password" in text_of(page)
        assert "the previous one stays valid until" in text_of(page)
        assert "passw0rd" not in page

        confirm = (await visitor.get(f"{path}/authentication/delete")).text
        assert Forms(confirm).posting()[-1] == f"{path}/authentication/delete"
        page = await visitor.submit(f"{path}/authentication/delete", back=path)
        assert "Authentication none" in text_of(page)
    assert (await client.get(f"/endpoints/{endpoint_id}")).json()["authentication"] is None


async def test_a_tls_identity_is_set_replaced_and_removed_and_shows_that_it_has_expired(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    tenant = await new_tenant(client)
    endpoint_id = await new_endpoint(client, tenant, url="https://127.0.0.1:4/")
    path = f"/dashboard/endpoints/{endpoint_id}"
    ended = datetime.now(UTC) - timedelta(days=1)
    expired = client_identity(AUTHORITY, not_before=ended - timedelta(days=1), not_after=ended)
    async with tenant_visitor(app, client, tenant) as visitor:
        other = client_identity(AUTHORITY)["private_key"]
        wrong = await visitor.post(
            f"{path}/tls", **expired | {"private_key": other, "overlap": "0"}
        )
        assert wrong.status_code == 422
        assert "is not the key of the first certificate" in wrong.text
        assert expired["certificate"].splitlines()[1] in wrong.text
        assert other.splitlines()[1] not in wrong.text
        page = await visitor.submit(f"{path}/tls", **expired, overlap="0")
        assert "expired valid until" in text_of(page)
        assert "PRIVATE" not in page
        page = await visitor.submit(f"{path}/tls", authorities=pem(AUTHORITY), overlap="86400")
        assert "the previous one stays valid until" in text_of(page)
        assert "1 trusted CA" in text_of(page)
        form = text_of((await visitor.get(f"{path}/tls")).text)
        assert "Certificate none Trusts OU=Testing CA" in form
        assert "Previous one valid until" in form
        page = await visitor.submit(f"{path}/tls/delete", back=path)
        assert "TLS identity none" in text_of(page)
    assert (await client.get(f"/endpoints/{endpoint_id}")).json()["tls"] is None


async def test_a_form_with_another_kind_or_overlap_is_rejected(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    tenant = await new_tenant(client)
    path = f"/dashboard/endpoints/{await new_endpoint(client, tenant)}/authentication"
    async with tenant_visitor(app, client, tenant) as visitor:
        for wrong in ({"kind": "digest"}, {"overlap": "1"}, {"client_secret": ""}):
            answer = await visitor.post(path, **OAUTH2 | wrong)
            assert answer.status_code == 422


async def test_a_visitor_with_a_portal_link_sets_the_authentication_of_its_endpoint(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    tenant = await new_tenant(client)
    endpoint_id = await new_endpoint(client, tenant)
    async with customer(app, client, tenant, endpoint_id=endpoint_id) as visitor:
        path = f"/portal/endpoints/{endpoint_id}"
        assert f"{path}/authentication" in (await visitor.get(path)).text
        bearer = {"kind": "bearer", "token": "t0ken", "overlap": "0"}
        page = await visitor.submit(f"{path}/authentication", **bearer)
        assert "a bearer token" in text_of(page)

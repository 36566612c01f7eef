"""Portal links, and browsers that have opened one, on the application under test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import httpx2
from fastapi import FastAPI

from api.context.context import Context
from api.portal.site import PORTAL
from hookfast.owners.notice import owner_hash
from hookfast.signing.portal_link import OwnerLinks
from tests.integration.dashboard.visitor import ORIGIN, Visitor, browser

OWN = "/portal/endpoints/{endpoint_id}"


def local(url: str) -> str:
    """Return a link's address on the application under test."""
    return ORIGIN + url[url.index("/portal") :]


async def link(client: httpx2.AsyncClient, tenant_id: str, **form: Any) -> str:
    """Create a portal link."""
    created = await client.post(f"/tenants/{tenant_id}/portal-links", json=form)
    assert created.status_code == 201, created.text
    return local(created.json()["url"])


def mail_link(context: Context, *, tenant_id: str, endpoint_id: str) -> str:
    """Return the link in a new mail to the owner of the endpoint."""
    return OwnerLinks(context.keyring, timedelta(days=7)).url(
        endpoint_id,
        tenant_id=tenant_id,
        owner=owner_hash("owner@shop.example"),
        at=context.clock(),
        public_url=ORIGIN,
    )


async def mailed(
    visitor: Visitor, context: Context, *, tenant_id: str, endpoint_id: str, **_: str
) -> httpx2.Response:
    """Follow the link in a mail to the endpoint's owner."""
    return await visitor.get(mail_link(context, tenant_id=tenant_id, endpoint_id=endpoint_id))


@asynccontextmanager
async def guest(app: FastAPI, **options: Any) -> AsyncIterator[Visitor]:
    """A browser on the portal, without a session."""
    async with browser(app, site=PORTAL, **options) as visitor:
        yield visitor


@asynccontextmanager
async def customer(
    app: FastAPI, client: httpx2.AsyncClient, tenant_id: str, *, scope: str = "tenant", **form: Any
) -> AsyncIterator[Visitor]:
    """A browser that has opened a new link."""
    async with guest(app) as visitor:
        opened = await visitor.get(await link(client, tenant_id, scope=scope, **form))
        assert opened.headers["location"] == "/portal", opened.text
        yield visitor

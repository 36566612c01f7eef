"""Portal links, and browsers that have opened one, on the application under test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpx2
from fastapi import FastAPI
from sqlalchemy import func, select

from api.context.context import Context
from api.portal.site import PORTAL
from hookfast.owners.notice import owner_hash
from hookfast.signing.portal_link import OwnerLinks
from hookfast.storage.tables import DashboardSession
from tests.integration.dashboard.visitor import ORIGIN, Visitor, browser

OWN = "/portal/endpoints/{endpoint_id}"
SESSIONS = DashboardSession.__table__


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


@dataclass(frozen=True, slots=True)
class Portal:
    """The portal of the tenant `own`, which has the rows in `shop`, and of the tenant `other`."""

    app: FastAPI
    client: httpx2.AsyncClient
    shop: dict[str, str]
    other: str

    @property
    def own(self) -> str:
        return self.shop["tenant_id"]

    def guest(self, **options: Any) -> AbstractAsyncContextManager[Visitor]:
        return guest(self.app, **options)

    def customer(self, tenant_id: str) -> AbstractAsyncContextManager[Visitor]:
        return customer(self.app, self.client, tenant_id)

    async def link(self, tenant_id: str, **form: Any) -> str:
        return await link(self.client, tenant_id, **form)

    async def mailed(self, visitor: Visitor) -> httpx2.Response:
        return await mailed(visitor, self.app.state.context, **self.shop)

    async def sessions(self, tenant_id: str) -> int:
        """Return how many sessions of this tenant's portal there are."""
        async with self.app.state.context.database.read() as connection:
            those = select(func.count()).where(SESSIONS.c.tenant_id == tenant_id)
            return (await connection.execute(those)).scalar_one()

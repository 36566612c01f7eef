"""Portal links of a tenant, on the application under test."""

from __future__ import annotations

from typing import Any

import httpx2

from tests.integration.dashboard.visitor import ORIGIN

OWN = "/dashboard/endpoints/{endpoint_id}"


def local(url: str) -> str:
    """Return a link's address on the application under test."""
    return ORIGIN + url[url.index("/dashboard") :]


async def link(client: httpx2.AsyncClient, tenant_id: str, **form: Any) -> str:
    created = await client.post(f"/tenants/{tenant_id}/portal-links", json=form)
    assert created.status_code == 201, created.text
    return local(created.json()["url"])

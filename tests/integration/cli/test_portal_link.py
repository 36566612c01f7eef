"""`hookfast portal-link`."""

from __future__ import annotations

import httpx2
import pytest

from tests.integration.cli.conftest import Run
from tests.support.api_client import endpoint_maker

pytestmark = pytest.mark.anyio


async def test_the_link_is_printed_alone_and_opens(
    hookfast: Run, client: httpx2.AsyncClient, tenant: str
) -> None:
    endpoint = await endpoint_maker(client)(tenant_id=tenant, events=["**"])
    ended = await hookfast("portal-link", "--endpoint", endpoint["id"], "--for", "2h", "--may-act")
    assert ended.code == 0, ended.err
    assert f"can see and control {endpoint['id']} and its deliveries" in ended.error_text
    sig = ended.out.strip().partition("/portal/open?sig=")[2]
    assert sig
    opened = await client.get(str(client.base_url.join(f"/portal/open?sig={sig}")))
    assert opened.headers["location"] == "/portal"


async def test_portal_link_needs_a_tenant_or_endpoint_and_a_valid_duration(
    hookfast: Run, tenant: str
) -> None:
    assert "give TENANT, --endpoint, or both" in (await hookfast("portal-link")).error_text
    ended = await hookfast("portal-link", tenant, "--for", "30d")
    assert ended.code != 0
    assert "/expires_in_seconds" in ended.error_text

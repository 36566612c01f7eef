"""A session ends with the right behind it, whatever ends that, and so does its link."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from sqlalchemy import update

from api.context.context import Context
from api.dashboard.site import DASHBOARD
from api.portal.site import PORTAL
from api.site.site import Site
from hookfast.storage.tables import ApiKey, Endpoint
from tests.integration.dashboard.visitor import Visitor, browser, sign_in
from tests.integration.portal.links import link, mail_link
from tests.support.api_client import KeyClient, client_with

pytestmark = pytest.mark.anyio

KEYS, ENDPOINTS = ApiKey.__table__, Endpoint.__table__


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A tenant with a key of its own, and clients for the API."""

    app: FastAPI
    context: Context
    operator: httpx2.AsyncClient
    tenant: httpx2.AsyncClient
    key: str
    key_id: str
    tenant_id: str
    endpoint_id: str
    other_endpoint_id: str

    async def change(self, table: Any, row: str, **values: Any) -> None:
        """Change a row, as another process or a person at the database does."""
        async with self.context.database.write() as connection:
            await connection.execute(update(table).where(table.c.id == row).values(values))

    async def owners(self, *addresses: str) -> None:
        answer = await self.operator.patch(
            f"/endpoints/{self.endpoint_id}",
            json={"owner_emails": list(addresses)},
            headers={"Content-Type": "application/merge-patch+json"},
        )
        assert answer.status_code == 200, answer.text


@pytest.fixture
async def world(
    app: FastAPI, context: Context, client: httpx2.AsyncClient, shop: dict[str, str]
) -> Any:
    form = {"scope": "tenant", "name": "x"}
    made = (await client.post(f"/tenants/{shop['tenant_id']}/api-keys", json=form)).json()
    async with client_with(app, made["key"]) as tenant:
        yield World(
            app=app,
            context=context,
            operator=client,
            tenant=tenant,
            key=made["key"],
            key_id=made["id"],
            tenant_id=shop["tenant_id"],
            endpoint_id=shop["endpoint_id"],
            other_endpoint_id=shop["other_endpoint_id"],
        )


async def of_key(world: World, visitor: Visitor) -> str | None:
    await sign_in(visitor, world.key)
    return None


async def opened(visitor: Visitor, url: str) -> str:
    await visitor.get(url)
    return url


async def of_link(world: World, visitor: Visitor) -> str | None:
    return await opened(visitor, await link(world.tenant, world.tenant_id, scope="tenant"))


async def of_link_to_endpoint(world: World, visitor: Visitor) -> str | None:
    return await opened(
        visitor, await link(world.tenant, world.tenant_id, endpoint_id=world.endpoint_id)
    )


async def of_operators_link(world: World, visitor: Visitor) -> str | None:
    return await opened(
        visitor, await link(world.operator, world.tenant_id, endpoint_id=world.endpoint_id)
    )


async def of_mail(world: World, visitor: Visitor) -> str | None:
    return await opened(
        visitor, mail_link(world.context, tenant_id=world.tenant_id, endpoint_id=world.endpoint_id)
    )


async def key_revoked(world: World) -> None:
    assert (await world.operator.delete(f"/api-keys/{world.key_id}")).status_code == 204


async def key_expired(world: World) -> None:
    await world.change(KEYS, world.key_id, expires_at=world.context.clock())


async def key_may_only_emit(world: World) -> None:
    await world.change(KEYS, world.key_id, scope="emit")


async def key_of_another_tenant(world: World) -> None:
    await world.change(KEYS, world.key_id, tenant_id="tnt_other")


async def tenant_deleted(world: World) -> None:
    assert (await world.operator.delete(f"/tenants/{world.tenant_id}")).status_code == 204


async def endpoint_deleted(world: World) -> None:
    assert (await world.operator.delete(f"/endpoints/{world.endpoint_id}")).status_code == 204


async def endpoint_of_another_tenant(world: World) -> None:
    await world.change(ENDPOINTS, world.endpoint_id, tenant_id="tnt_other")


async def owner_removed(world: World) -> None:
    await world.owners()


async def owner_replaced(world: World) -> None:
    await world.owners("new@shop.example", "owner@shop.example.org")


Begin = Callable[[World, Visitor], Awaitable[str | None]]
End = Callable[[World], Awaitable[None]]

OF_KEY = (key_revoked, key_expired, key_may_only_emit, key_of_another_tenant, tenant_deleted)
OF_ENDPOINT = (endpoint_deleted, endpoint_of_another_tenant, tenant_deleted)
OF_OWNER = (owner_removed, owner_replaced)
WAYS = [
    *((of_key, end) for end in OF_KEY),
    *((of_link, end) for end in OF_KEY),
    *((of_link_to_endpoint, end) for end in {*OF_KEY, *OF_ENDPOINT}),
    *((of_operators_link, end) for end in OF_ENDPOINT),
    *((of_mail, end) for end in (*OF_ENDPOINT, *OF_OWNER)),
]


def site_of(begin: Begin) -> Site[Any]:
    return DASHBOARD if begin is of_key else PORTAL


def page_of(begin: Begin, world: World) -> str:
    return f"{site_of(begin).home}/endpoints/{world.endpoint_id}"


async def sees(visitor: Visitor, page: str) -> bool:
    """Whether the browser has a session that shows the page; if not, it has no other either."""
    answer = await visitor.get(page)
    assert answer.status_code in (200, 303)
    return answer.status_code == 200


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        pytest.param(begin, end, id=f"{begin.__name__}-{end.__name__}")
        for begin, end in sorted(WAYS, key=lambda way: [each.__name__ for each in way])
    ],
)
async def test_session_and_link_end_with_the_right_behind_them(
    world: World, begin: Begin, end: End
) -> None:
    async with browser(world.app, site=site_of(begin)) as visitor:
        url = await begin(world, visitor)
        page = page_of(begin, world)
        assert await sees(visitor, page)
        await end(world)
        assert not await sees(visitor, page)
        live = f"{site_of(begin).home}/live/"
        live += "overview" if begin is of_key else f"activity?endpoint_id={world.endpoint_id}"
        answer = await visitor.get(live, headers={"Accept": "text/event-stream"})
        assert answer.status_code == 204
    if url is not None:
        async with browser(world.app, site=PORTAL) as another:
            answer = await another.get(url)
            assert answer.status_code == 401
            assert "no longer valid" in answer.text
            assert "hookfast-portal=" not in str(answer.headers.get_list("set-cookie"))


async def address_in_capitals(world: World) -> None:
    await world.owners("OWNER@shop.example", "new@shop.example")


async def other_endpoint_deleted(world: World) -> None:
    await world.operator.delete(f"/endpoints/{world.other_endpoint_id}")


async def another_key_revoked(world: World) -> None:
    form = {"scope": "tenant", "name": "x"}
    path = f"/tenants/{world.tenant_id}/api-keys"
    other = (await world.operator.post(path, json=form)).json()["id"]
    await world.operator.delete(f"/api-keys/{other}")


@pytest.mark.parametrize("begin", [of_key, of_link, of_link_to_endpoint, of_mail])
@pytest.mark.parametrize(
    "change", [address_in_capitals, other_endpoint_deleted, another_key_revoked]
)
async def test_session_goes_on_when_the_right_behind_it_does(
    world: World, begin: Begin, change: End
) -> None:
    async with browser(world.app, site=site_of(begin)) as visitor:
        await begin(world, visitor)
        await change(world)
        assert await sees(visitor, page_of(begin, world))


async def test_owner_who_is_added_again_has_the_session_again(world: World) -> None:
    async with browser(world.app, site=PORTAL) as visitor:
        await of_mail(world, visitor)
        await owner_removed(world)
        assert not await sees(visitor, page_of(of_mail, world))
        await world.owners("owner@shop.example")
        assert await sees(visitor, page_of(of_mail, world))


async def test_link_does_not_give_more_than_its_key_has(
    world: World, key_client: KeyClient
) -> None:
    """A key that may only read creates no links, and one that became so has none any more."""
    async with key_client(world.tenant_id, scope="tenant:read") as reader:
        refused = await reader.post(f"/tenants/{world.tenant_id}/portal-links", json={})
        assert refused.status_code == 403
    async with browser(world.app, site=PORTAL) as visitor, browser(world.app, site=PORTAL) as other:
        await of_link(world, visitor)
        await of_link_to_endpoint(world, other)
        await world.change(KEYS, world.key_id, scope="tenant:read")
        assert not await sees(visitor, page_of(of_link, world))
        assert await sees(other, page_of(of_link_to_endpoint, world))  # that only reads


async def test_key_that_is_revoked_while_a_person_signs_in_begins_no_session(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache of keys is up to two seconds old."""
    async with browser(world.app) as visitor:
        await world.tenant.get("/endpoints")  # the key is cached
        await world.change(KEYS, world.key_id, revoked_at=world.context.clock() - timedelta(1))
        answer = await sign_in(visitor, world.key)
        assert answer.status_code == 401
        assert "hookfast-session" not in dict(visitor.client.cookies)

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import pytest

from tests.support.api_client import Make, assert_problem

pytestmark = pytest.mark.anyio

Walk = Callable[..., Awaitable[list[str]]]


@pytest.fixture
def walk(client: httpx2.AsyncClient) -> Walk:
    """Follow `next_cursor` to the end, and return the ids in order."""

    async def walk(path: str, **params: Any) -> list[str]:
        ids: list[str] = []
        while True:
            answer = await client.get(path, params=params)
            assert answer.status_code == 200, answer.text
            page = answer.json()
            assert len(page["data"]) <= params["limit"]
            ids += [row["id"] for row in page["data"]]
            if page["next_cursor"] is None:
                return ids
            assert len(page["data"]) == params["limit"]
            params["cursor"] = page["next_cursor"]

    return walk


@pytest.mark.parametrize("limit", [1, 2, 3, 6, 7, 200])
async def test_walk_through_pages_sees_every_row_once_newest_first(
    walk: Walk, make_tenant: Make, limit: int
) -> None:
    made = [(await make_tenant())["id"] for _ in range(6)]
    assert await walk("/tenants", limit=limit) == list(reversed(made))


async def test_cursor_works_with_the_filters_of_every_list(
    client: httpx2.AsyncClient, walk: Walk, make_tenant: Make, make_endpoint: Make
) -> None:
    tenant, other = (await make_tenant())["id"], (await make_tenant())["id"]
    endpoints, subscriptions, keys = [], [], []
    for _ in range(5):
        await make_endpoint(tenant_id=other, events=["**"])
        endpoint = await make_endpoint(tenant_id=tenant, events=["**"])
        endpoints.append(endpoint["id"])
        subscriptions.append(endpoint["subscription"]["id"])
        key = await client.post(f"/tenants/{tenant}/api-keys", json={"name": "x"})
        keys.append(key.json()["id"])
    for path, params, made in (
        ("/endpoints", {"tenant_id": tenant}, endpoints),
        ("/subscriptions", {"tenant_id": tenant}, subscriptions),
        ("/subscriptions", {"tenant_id": tenant, "matches": "a.b.c"}, subscriptions),
        (f"/tenants/{tenant}/api-keys", {}, keys),
    ):
        assert await walk(path, limit=2, **params) == list(reversed(made)), path


async def test_rows_created_meanwhile_do_not_shift_the_pages(
    client: httpx2.AsyncClient, make_tenant: Make
) -> None:
    made = [(await make_tenant())["id"] for _ in range(4)]
    first = (await client.get("/tenants", params={"limit": 2})).json()
    await make_tenant()
    await client.delete(f"/tenants/{made[2]}")  # the cursor's own row
    rest = (await client.get("/tenants", params={"cursor": first["next_cursor"]})).json()
    assert [row["id"] for row in rest["data"]] == [made[1], made[0]]


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "?",
        "abc",
        "AAAA",
        "\x00",
        "é",
        "a" * 401,
        base64.urlsafe_b64encode(b"tnt_\x00").decode(),
        base64.urlsafe_b64encode("tnt_é".encode()).decode(),
        base64.urlsafe_b64encode(b"tnt_" + b"0" * 32).decode(),  # a key without the id of its list
    ],
)
async def test_invalid_cursor_is_rejected(common_client: httpx2.AsyncClient, cursor: str) -> None:
    answer = await common_client.get("/tenants", params={"cursor": cursor})
    assert_problem(answer, 422, code="invalid_input", pointer="cursor")


async def test_cursor_of_another_list_is_rejected(
    client: httpx2.AsyncClient, make_tenant: Make
) -> None:
    tenants = [(await make_tenant())["id"] for _ in range(2)]
    for _ in range(2):
        await client.post(f"/tenants/{tenants[0]}/api-keys", json={"name": "x"})
    of_keys = f"/tenants/{tenants[0]}/api-keys"
    cursors = {
        path: (await client.get(path, params={"limit": 1})).json()["next_cursor"]
        for path in ("/tenants", of_keys)
    }
    for path, cursor in (
        ("/endpoints", cursors["/tenants"]),
        ("/tenants", cursors[of_keys]),
        (f"/tenants/{tenants[1]}/api-keys", cursors[of_keys]),
    ):
        answer = await client.get(path, params={"cursor": cursor})
        problem = assert_problem(answer, 422, code="invalid_input", pointer="cursor")
        assert "not a cursor of this list" in str(problem)
    assert (await client.get("/tenants", params={"cursor": cursors["/tenants"]})).status_code == 200


@pytest.mark.parametrize(
    "limit", ["0", "201", "-1", "x", "", "1.5", "1_0", "+5", " 5", "٥", "1e1", "9" * 30, "1\x00"]
)
async def test_limit_out_of_range_is_rejected(
    common_client: httpx2.AsyncClient, limit: str
) -> None:
    answer = await common_client.get("/tenants", params={"limit": limit})
    assert_problem(answer, 422, code="invalid_input", pointer="limit")


@pytest.mark.parametrize("path", ["/tenants", "/endpoints", "/event-types", "/api-keys"])
async def test_unknown_query_parameter_is_rejected_by_name(
    common_client: httpx2.AsyncClient, path: str
) -> None:
    answer = await common_client.get(path, params={"limt": "5"})
    assert_problem(answer, 422, code="invalid_input", pointer="limt")

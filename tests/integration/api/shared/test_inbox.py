"""The inbox: what is stored of a received request, and how it is listed and shown."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from tests.integration.api.inbound import SECRET, post, send
from tests.integration.api.shared.sources import make_source
from tests.support.api_client import assert_problem

pytestmark = pytest.mark.anyio


async def test_inbox_keeps_no_credentials_and_signatures(
    client: httpx2.AsyncClient, tenant: str
) -> None:
    source = (await make_source(client, tenant, provider="gitlab"))["id"]
    headers = {
        "Content-Type": "application/json",
        "X-Gitlab-Token": SECRET,
        "X-Gitlab-Event": "Push Hook",
        "Authorization": "Bearer hush",
        "Cookie": "hush=1",
        "X-Api-Key": "hush",
    }
    answer = await post(client, source, headers, b'{"object_kind": "push"}')
    assert answer.status_code == 202, answer.text
    shown = await client.get(f"/inbox/{answer.json()['id']}")
    assert shown.json()["headers"] == [["x-gitlab-event", "Push Hook"]]
    assert "hush" not in shown.text
    assert SECRET not in shown.text


async def test_body_is_a_download_that_no_browser_displays(
    client: httpx2.AsyncClient, source: str
) -> None:
    body = b'{"html": "<script>alert(1)</script>"}'
    entry = (await send(client, source, body)).json()["id"]
    answer = await client.get(f"/inbox/{entry}/body")
    assert answer.content == body
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == f'attachment; filename="{entry}.bin"'
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-store"


async def test_inbox_list_is_newest_first_and_combines_filters(
    client: httpx2.AsyncClient, tenant: str
) -> None:
    source = (await make_source(client, tenant))["id"]
    ids = []
    for n, event in enumerate(["push", "push", "fork"]):
        ids.append(
            (await send(client, source, {"n": n}, event=event, delivery=f"d{n}")).json()["id"]
        )

    async def listed(**params: Any) -> list[str]:
        answer = await client.get("/inbox", params={"source_id": source} | params)
        assert answer.status_code == 200, answer.text
        return [row["id"] for row in answer.json()["data"]]

    assert await listed() == ids[::-1]
    assert await listed(tenant_id=tenant, status="accepted") == ids[::-1]
    assert await listed(event_type="github.push.received") == ids[1::-1]
    assert await listed(status="failed") == []
    assert await listed(key="id:d1") == [ids[1]]
    assert await listed(key="id:d1", event_type="github.fork.received") == []
    assert await listed(key="id:none") == []
    middle = (await client.get(f"/inbox/{ids[1]}")).json()["received_at"]
    assert await listed(since=middle) == ids[:0:-1]
    assert await listed(until=middle) == ids[:1]
    assert await listed(key="id:d1", since=middle) == [ids[1]]
    assert await listed(key="id:d1", until=middle) == []
    first = (await client.get("/inbox", params={"source_id": source, "limit": 2})).json()
    more = {"limit": 2, "cursor": first["next_cursor"]}
    assert [row["id"] for row in first["data"]] + await listed(**more) == ids[::-1]
    assert_problem(
        await client.get("/inbox", params={"key": "id:d1"}),
        422,
        code="invalid_input",
        pointer="key",
    )

"""Emitting and polling events."""

from __future__ import annotations

from typing import Any

import httpx2

from tests.support.api_client import Json

TYPE = "order.invoice.paid"


async def emit(client: httpx2.AsyncClient, n: int, type_: str = TYPE, **members: Any) -> str:
    answer = await client.post("/events", json={"type": type_, "data": {"n": n}, **members})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


async def poll(client: httpx2.AsyncClient, endpoint: str, **query: Any) -> Json:
    answer = await client.get(f"/endpoints/{endpoint}/poll", params=query)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def numbers(page: Json) -> list[int]:
    return [item["event"]["data"]["n"] for item in page["data"]]

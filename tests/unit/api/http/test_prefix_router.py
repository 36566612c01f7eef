"""`PrefixRouter` matches what FastAPI's router matches."""

from __future__ import annotations

import httpx2
import pytest
from fastapi import APIRouter, FastAPI

from api.http.prefix_router import PrefixRouter

pytestmark = pytest.mark.anyio


def application(router: APIRouter) -> FastAPI:
    """Return an application with this router and one more route."""

    @router.get("/shops")
    async def shops() -> str:
        return "shops"

    @router.get("/shops/{name}/orders")
    async def orders(name: str) -> str:
        return f"orders of {name}"

    @router.post("/{whatever:path}")
    async def anything(whatever: str) -> str:
        return f"post to {whatever}"

    app = FastAPI()
    app.include_router(router)

    @app.get("/v2/shops")
    async def other() -> str:
        return "second version"

    return app


@pytest.mark.parametrize(
    "path",
    [
        *("/v1/shops", "/v1/shops/a/orders", "/v1/shops/a", "/v1/shop", "/v1", "/"),
        *("/v2/shops", "/below/v1/shops", "/below/v2/shops", "/below"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_routes_are_those_of_an_api_router(method: str, path: str) -> None:
    answers = []
    for kind in (APIRouter, PrefixRouter):
        app = application(kind(prefix="/v1"))
        transport = httpx2.ASGITransport(app, root_path="/below")
        async with httpx2.AsyncClient(transport=transport, base_url="http://x.test") as client:
            answer = await client.request(method, path)
        answers.append((answer.status_code, answer.text, answer.headers.get("allow")))
    assert answers[0] == answers[1]

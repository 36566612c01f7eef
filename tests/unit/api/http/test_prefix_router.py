"""`PrefixRouter` matches what FastAPI's router matches."""

from __future__ import annotations

from collections.abc import Callable

import httpx2
import pytest
from fastapi import APIRouter, FastAPI
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from api.http.prefix_router import PrefixRouter
from tests.support.quiet_app import quiet_app

pytestmark = pytest.mark.anyio


async def answer(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"{request.method} {request.path_params}")


def only_fixed(router: APIRouter) -> None:
    router.add_api_route("/shops", answer)


def several(router: APIRouter) -> None:
    only_fixed(router)
    router.add_api_route("/shops/{name}/orders", answer)
    router.add_api_route("/customers/{name}", answer, methods=["POST"])


def with_any_path(router: APIRouter) -> None:
    several(router)
    router.add_api_route("/{whatever:path}", answer, methods=["POST"])


def with_another_kind(router: APIRouter) -> None:
    only_fixed(router)
    router.add_route("/plain", answer)


def with_a_router(router: APIRouter) -> None:
    inner = APIRouter(prefix="/inner")
    inner.add_api_route("/shops", answer)
    router.include_router(inner)


def application(router: APIRouter, add: Callable[[APIRouter], None]) -> FastAPI:
    """Return an application with this router and one more route."""
    add(router)
    app = quiet_app()
    app.include_router(router)
    app.add_api_route("/v2/shops", answer)
    return app


@pytest.mark.parametrize(
    "add", [only_fixed, several, with_any_path, with_another_kind, with_a_router]
)
async def test_routes_are_those_of_an_api_router(add: Callable[[APIRouter], None]) -> None:
    paths = ["/", "/v1", "/v2/shops", "/below", "/below/v1/shops", "/below/v2/shops"]
    paths += ["/v1/shop", "/v1/shops", "/v1/shops/", "/v1/shops/a", "/v1/shops/a/orders"]
    paths += ["/v1/customers", "/v1/customers/a", "/v1/plain", "/plain", "/v1/inner/shops"]
    requests = [(method, path) for method in ("GET", "POST", "OPTIONS") for path in paths]
    expected, found = [
        [await answer_of(app, *request) for request in requests]
        for app in (application(kind(prefix="/v1"), add) for kind in (APIRouter, PrefixRouter))
    ]
    assert found == expected
    assert {status for status, *_ in found} >= {200, 404}


async def answer_of(app: FastAPI, method: str, path: str) -> tuple[int, str, str | None]:
    transport = httpx2.ASGITransport(app, root_path="/below")
    async with httpx2.AsyncClient(transport=transport, base_url="http://x.test") as client:
        answer = await client.request(method, path)
    return answer.status_code, answer.text, answer.headers.get("allow")

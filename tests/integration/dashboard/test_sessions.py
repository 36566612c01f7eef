"""Signing in, and the ends of a session."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from http.cookies import SimpleCookie

import httpx2
import pytest
from fastapi import FastAPI, Response
from sqlalchemy import select, update

from api.context.context import Context
from api.dashboard.site import DASHBOARD
from api.site.page_route import PageRouter
from hookfast.storage.tables import DashboardSession
from tests.integration.dashboard.visitor import Visitor, browser, sign_in, signed_in
from tests.support.api_client import OPERATOR_KEY
from tests.support.quiet_app import quiet_app

pytestmark = pytest.mark.anyio

SESSIONS = DashboardSession.__table__
SESSION = "hookfast-session"


async def is_signed_in(visitor: Visitor) -> bool:
    return (await visitor.get("/dashboard")).status_code == 200


def session_cookie(answer: httpx2.Response) -> str:
    return next(
        line for line in answer.headers.get_list("set-cookie") if SESSION in line.split("=")[0]
    )


async def test_root_redirects_to_the_dashboard_and_then_to_sign_in(app: FastAPI) -> None:
    async with browser(app) as visitor:
        for path in ("/", "/dashboard/"):
            assert (await visitor.get(path)).headers["location"] == "/dashboard"
        assert (await visitor.get("/dashboard")).headers["location"] == "/dashboard/sign-in"


async def test_sign_in_returns_to_the_requested_page(app: FastAPI) -> None:
    async with browser(app) as visitor:
        sent = await visitor.get("/dashboard/deliveries?status=dead")
        assert sent.status_code == 303
        assert sent.headers["location"] == (
            "/dashboard/sign-in?next=/dashboard/deliveries%3Fstatus%3Ddead"
        )
        page = await visitor.get(sent.headers["location"])
        assert 'value="/dashboard/deliveries?status=dead"' in page.text
        answer = await sign_in(visitor, OPERATOR_KEY, next="/dashboard/deliveries?status=dead")
        assert answer.headers["location"] == "/dashboard/deliveries?status=dead"


@pytest.mark.parametrize(
    ("path", "fields", "page"),
    [
        ("/dashboard/endpoints/new", {"url": "https://example.com"}, "/dashboard/endpoints/new"),
        ("/dashboard/api-keys", {"back": "/dashboard/api-keys"}, "/dashboard/api-keys"),
        ("/dashboard/api-keys", {"back": "//evil.example"}, None),
        ("/dashboard/sign-out", {}, None),
    ],
)
async def test_form_sent_without_a_session_returns_to_its_page_after_sign_in(
    app: FastAPI, path: str, fields: dict[str, str], page: str | None
) -> None:
    async with browser(app) as visitor:
        answer = await visitor.client.post(path, data=fields)
    assert answer.status_code == 303
    after = "" if page is None else f"?next={page}"
    assert answer.headers["location"] == f"/dashboard/sign-in{after}"


@pytest.mark.parametrize(
    "path",
    [
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "/dashboard\\..\\..",
        "/v1/tenants",
        "/dashboardish",
        "javascript:alert(1)",
        "/dashboard/\r\nSet-Cookie: a=b",
    ],
)
async def test_sign_in_redirects_only_to_the_dashboard(app: FastAPI, path: str) -> None:
    async with browser(app) as visitor:
        answer = await sign_in(visitor, OPERATOR_KEY, next=path)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/dashboard"


async def test_sign_in_drops_a_return_address_that_is_too_long(app: FastAPI) -> None:
    long = "/dashboard/audit?resource_id=" + "a" * 2_000
    async with browser(app) as visitor:
        assert (await visitor.get(long)).headers["location"] == "/dashboard/sign-in"
        page = await visitor.get("/dashboard/sign-in", params={"next": long})
        assert page.status_code == 200
        assert 'name="next" value=""' in page.text
        answer = await sign_in(visitor, OPERATOR_KEY, next=long)
        assert answer.headers["location"] == "/dashboard"


async def test_invalid_query_of_an_open_page_answers_an_error_page(context: Context) -> None:
    open_routes = PageRouter(DASHBOARD, opens=True)

    @open_routes.get("/opened")
    async def opened(number: int) -> Response:
        return Response(str(number))

    app = quiet_app()
    app.state.context = context
    app.include_router(open_routes)
    async with browser(app) as visitor:
        answer = await visitor.get("/dashboard/opened?number=none-of-them")
    assert answer.status_code == 422
    assert answer.headers["content-type"].startswith("text/html")
    assert "Invalid input" in answer.text


@pytest.mark.parametrize("scope", ["tenant", "tenant:read"])
async def test_tenant_key_signs_in(
    app: FastAPI, client: httpx2.AsyncClient, owned: dict[str, str], scope: str
) -> None:
    created = await client.post(
        f"/tenants/{owned['tenant_id']}/api-keys", json={"scope": scope, "name": "x"}
    )
    async with signed_in(app, created.json()["key"]) as visitor:
        page = await visitor.get("/dashboard")
    assert "Victim" in page.text
    assert ("read only" in page.text) == (scope == "tenant:read")


async def test_emit_key_cannot_sign_in(
    app: FastAPI, client: httpx2.AsyncClient, owned: dict[str, str]
) -> None:
    created = await client.post(
        f"/tenants/{owned['tenant_id']}/api-keys", json={"scope": "emit", "name": "x"}
    )
    async with browser(app) as visitor:
        answer = await sign_in(visitor, created.json()["key"])
        assert answer.status_code == 403
        assert "This key may only emit events" in answer.text
        assert not await is_signed_in(visitor)


async def test_wrong_keys_are_rejected_then_throttled(app: FastAPI) -> None:
    async with browser(app, address="203.0.113.66") as visitor:
        for key in ("", "hf_short", "hf_" + "x" * 40):
            answer = await sign_in(visitor, key)
            assert answer.status_code == 401
            assert 'role="alert"' in answer.text
        assert (await sign_in(visitor, "hf_" + "y" * 40)).status_code == 429
        # a valid key still works
        assert (await sign_in(visitor, OPERATOR_KEY)).status_code == 303


async def test_invalid_session_cookies_count_as_failed_sign_ins(app: FastAPI) -> None:
    async with browser(app, address="203.0.113.68") as visitor:
        for number in range(4):
            visitor.client.cookies.set(SESSION, f"made-up-{number}")
            assert (await visitor.get("/dashboard")).status_code == 303
        visitor.client.cookies.clear()
        assert (await sign_in(visitor, "hf_" + "z" * 40)).status_code == 429
        assert (await sign_in(visitor, OPERATOR_KEY)).status_code == 303


async def test_no_response_contains_the_key(app: FastAPI) -> None:
    wrong = "hf_" + "secret-looking-" * 3
    async with browser(app, address="203.0.113.67") as visitor:
        assert wrong not in (await sign_in(visitor, wrong)).text
        answer = await sign_in(visitor, OPERATOR_KEY)
        assert OPERATOR_KEY not in str(answer.headers)
        assert OPERATOR_KEY not in (await visitor.get("/dashboard")).text


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_session_cookie_is_for_this_host_only_and_hidden_from_scripts(
    app: FastAPI, scheme: str
) -> None:
    async with browser(app, origin=f"{scheme}://hookfast.test") as visitor:
        answer = await sign_in(visitor, OPERATOR_KEY)
    line = session_cookie(answer)
    [(name, morsel)] = SimpleCookie(line).items()
    assert morsel["httponly"]
    assert morsel["samesite"] == "lax"
    assert morsel["path"] == "/"
    assert not morsel["domain"]
    assert bool(morsel["secure"]) == (scheme == "https")
    assert name == (f"__Host-{SESSION}" if scheme == "https" else SESSION)


async def test_database_does_not_store_the_session_token(app: FastAPI, context: Context) -> None:
    async with signed_in(app, OPERATOR_KEY) as visitor:
        token = visitor.client.cookies[SESSION]
        async with context.database.read() as connection:
            rows = (await connection.execute(select(SESSIONS))).all()
    assert rows
    assert token not in str(rows)


async def test_signing_in_again_ends_the_previous_session(app: FastAPI) -> None:
    async with signed_in(app, OPERATOR_KEY) as visitor, browser(app) as thief:
        thief.client.cookies.set(SESSION, visitor.client.cookies[SESSION])
        assert await is_signed_in(thief)
        await sign_in(visitor, OPERATOR_KEY)
        assert await is_signed_in(visitor)
        assert not await is_signed_in(thief)


async def test_planted_session_token_is_replaced_at_sign_in(app: FastAPI) -> None:
    async with browser(app) as visitor:
        visitor.client.cookies.set(SESSION, "planted")
        answer = await sign_in(visitor, OPERATOR_KEY)
    assert "planted" not in session_cookie(answer)


async def test_signing_out_ends_the_session_on_the_server(app: FastAPI) -> None:
    async with signed_in(app, OPERATOR_KEY) as visitor, browser(app) as thief:
        thief.client.cookies.set(SESSION, visitor.client.cookies[SESSION])
        answer = await visitor.post("/dashboard/sign-out")
        assert answer.headers["location"] == "/dashboard/sign-in"
        assert not await is_signed_in(visitor)
        assert not await is_signed_in(thief)


async def test_revoking_the_key_ends_its_session_at_once(
    app: FastAPI, client: httpx2.AsyncClient, owned: dict[str, str]
) -> None:
    created = await client.post(f"/tenants/{owned['tenant_id']}/api-keys", json={"name": "x"})
    async with signed_in(app, created.json()["key"]) as visitor:
        assert await is_signed_in(visitor)
        await client.delete(f"/api-keys/{created.json()['id']}")
        assert not await is_signed_in(visitor)


async def test_deleting_the_tenant_ends_its_sessions(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    tenant = (await client.post("/tenants", json={"name": "Short-lived"})).json()["id"]
    created = await client.post(f"/tenants/{tenant}/api-keys", json={"name": "x"})
    async with signed_in(app, created.json()["key"]) as visitor:
        assert await is_signed_in(visitor)
        await client.delete(f"/tenants/{tenant}")
        assert not await is_signed_in(visitor)


async def test_session_lasts_half_a_day_even_if_the_browser_keeps_the_cookie(
    app: FastAPI, context: Context
) -> None:
    async with signed_in(app, OPERATOR_KEY) as visitor:
        digest = hashlib.sha256(visitor.client.cookies[SESSION].encode()).hexdigest()
        own = SESSIONS.c.token_sha256 == digest
        async with context.database.write() as connection:
            row = (await connection.execute(select(SESSIONS).where(own))).one()
            assert row.expires_at - row.created_at == timedelta(hours=12)
            over = update(SESSIONS).where(own).values(expires_at=context.clock())
            await connection.execute(over)
        assert not await is_signed_in(visitor)
        async with signed_in(app, OPERATOR_KEY), context.database.read() as connection:
            # the next sign-in deletes expired sessions
            assert (await connection.execute(select(SESSIONS).where(own))).first() is None


async def test_a_session_does_not_outlast_its_key(
    app: FastAPI, client: httpx2.AsyncClient, context: Context, owned: dict[str, str]
) -> None:
    until = context.clock() + timedelta(hours=1)
    created = await client.post(
        f"/tenants/{owned['tenant_id']}/api-keys",
        json={"name": "x", "expires_at": until.isoformat()},
    )
    async with browser(app) as visitor:
        answer = await sign_in(visitor, created.json()["key"])
    [morsel] = SimpleCookie(session_cookie(answer)).values()
    assert 3_000 < int(morsel["max-age"]) <= 3_600


async def test_live_part_answers_204_without_a_session(
    app: FastAPI,
) -> None:
    async with browser(app) as visitor:
        answer = await visitor.get(
            "/dashboard/live/overview", headers={"Accept": "text/event-stream"}
        )
    assert answer.status_code == 204

"""The security and cache headers of every response."""

from __future__ import annotations

import asyncio
from html.parser import HTMLParser
from ipaddress import ip_network

import httpx2
import pytest
from fastapi import FastAPI
from starlette.responses import HTMLResponse

from api.answers.page_policy import page_policy
from hookfast.settings.settings import Settings
from tests.support.api_client import OPERATOR_KEY, borrowed_app, client_with

pytestmark = pytest.mark.anyio

ALWAYS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
HSTS = "strict-transport-security"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/tenants", 200),
        ("GET", "/v1/tenants/tnt_" + "0" * 32, 404),
        ("GET", "/v1/nothing", 404),
        ("PUT", "/v1/tenants", 405),
        ("POST", "/v1/tenants", 415),
        ("POST", "/v1/events", 413),
        ("GET", "/v1/tenants?nothing=1", 422),
        ("GET", "/healthz", 200),
        ("GET", "/openapi.json", 200),
        ("GET", "/nothing", 404),
        ("GET", "/", 307),
    ],
)
async def test_every_response_has_security_headers(
    app: FastAPI, method: str, path: str, status: int
) -> None:
    transport = httpx2.ASGITransport(app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://hookfast.test") as client:
        answer = await client.request(
            method,
            path,
            content=b"x" * (300_000 if status == 413 else 1) if method == "POST" else None,
            headers={"Authorization": f"Bearer {OPERATOR_KEY}"},
        )
    assert answer.status_code == status
    assert_secure(answer)


async def test_unexpected_error_has_security_headers(
    answer_to_an_unexpected_error: httpx2.Response,
) -> None:
    answer = answer_to_an_unexpected_error
    assert answer.status_code == 500
    assert_secure(answer)


def assert_secure(answer: httpx2.Response) -> None:
    """Check the headers of a response over HTTP that no one may cache."""
    assert ALWAYS.items() <= dict(answer.headers).items()
    assert answer.headers["cache-control"] == "no-store"
    assert "camera=()" in answer.headers["permissions-policy"]
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert HSTS not in answer.headers
    # each header once
    names = [name for name, _ in answer.headers.multi_items()]
    assert len(names) == len(set(names))


async def test_response_without_a_key_has_security_headers(app: FastAPI) -> None:
    async with client_with(app, "nonsense") as client:
        answer = await client.get("/tenants")
    assert answer.status_code == 401
    assert ALWAYS.items() <= dict(answer.headers).items()
    assert answer.headers["cache-control"] == "no-store"


async def test_public_documents_keep_their_own_caching(client: httpx2.AsyncClient) -> None:
    answer = await client.get("http://hookfast.test/.well-known/hookfast-keys.json")
    assert answer.headers["cache-control"] == "public, max-age=300"
    assert ALWAYS.items() <= dict(answer.headers).items()


@pytest.mark.parametrize(
    ("url", "peer", "scheme", "is_https"),
    [
        ("https://hookfast.test", "203.0.113.7", None, True),
        ("http://hookfast.test", "203.0.113.7", None, False),
        ("http://hookfast.test", "10.0.0.1", "https", True),
        ("http://hookfast.test", "10.0.0.1", "http", False),
        ("http://hookfast.test", "203.0.113.7", "https", False),
        ("https://hookfast.test", "10.0.0.1", "http", False),
    ],
)
async def test_hsts_is_sent_over_https_only(
    settings: Settings, url: str, peer: str, scheme: str | None, is_https: bool
) -> None:
    trusted = (ip_network("10.0.0.0/8"),)
    headers = {} if scheme is None else {"X-Forwarded-Proto": scheme}
    with borrowed_app(settings.model_copy(update={"trusted_proxies": trusted})) as app:
        transport = httpx2.ASGITransport(app, client=(peer, 1234))
        async with httpx2.AsyncClient(transport=transport, base_url=url, headers=headers) as client:
            answers = [await client.get("/healthz"), await client.get("/nothing")]
    assert [HSTS in answer.headers for answer in answers] == [is_https] * 2


class _Page(HTMLParser):
    """What a browser would load and run of a page: scripts, styles, handlers, addresses."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.scripts: list[str] = []
        self.handlers: list[str] = []
        self.addresses: list[str] = []
        self._is_inline = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        members = dict(attrs)
        self._is_inline = tag == "script" and "src" not in members
        self.handlers += [name for name in members if name.startswith("on") or name == "style"]
        self.addresses += [members[name] or "" for name in ("src", "href") if name in members]
        assert tag != "style"

    def handle_data(self, data: str) -> None:
        if self._is_inline:
            self.scripts.append(data)

    def handle_endtag(self, tag: str) -> None:
        self._is_inline = False


async def test_the_docs_may_run_their_own_scripts_and_nothing_else(
    client: httpx2.AsyncClient,
) -> None:
    answer = await client.get("http://hookfast.test/docs")
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert "unsafe" not in policy
    directives = dict(part.split(" ", 1) for part in policy.split("; "))
    page = _Page(answer.text)
    assert page.scripts == []  # none is inline
    assert directives["script-src"] == directives["style-src"] == "'self'"
    assert directives["default-src"] == directives["frame-ancestors"] == "'none'"
    assert page.handlers == []
    pages = {"#content", "/dashboard", "/docs", "/guide", "/openapi.json"}
    for address in set(page.addresses) - pages:
        asset = await client.get(f"http://hookfast.test{address}")
        assert asset.status_code == 200, address
        if address.startswith("/docs/assets/"):
            assert asset.headers["cache-control"] == "no-cache"
            again = {"If-None-Match": asset.headers["etag"]}
            kept = await client.get(f"http://hookfast.test{address}", headers=again)
            assert kept.status_code == 304


async def test_a_page_sets_its_own_policy(own_app: FastAPI) -> None:
    html = "<script>one()</script><p>text</p>"
    policy = page_policy(script_src=["'self'"], form_action=["'self'"])

    @own_app.get("/page")
    async def page() -> HTMLResponse:
        return HTMLResponse(html, headers={"Content-Security-Policy": policy})

    async with client_with(own_app, OPERATOR_KEY) as client:
        answer = await client.get("http://hookfast.test/page")
    assert answer.headers.get_list("content-security-policy") == [policy]
    assert policy == (
        "default-src 'none'; "
        "script-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )


@pytest.mark.parametrize("source", ["'unsafe-inline'", "'unsafe-eval'", "*", "data:"])
def test_a_policy_never_allows_injected_code(source: str) -> None:
    with pytest.raises(ValueError, match="injected"):
        page_policy(script_src=[source])
    with pytest.raises(ValueError, match="injected"):
        page_policy(style_src=[source])


async def test_simultaneous_responses_do_not_share_headers(app: FastAPI) -> None:
    async with client_with(app, OPERATOR_KEY) as client:
        answers = await asyncio.gather(*(client.get("/tenants") for _ in range(10)))
    for answer in answers:
        assert len(answer.headers.get_list("x-request-id")) == 1
    assert len({answer.headers["x-request-id"] for answer in answers}) == 10

"""A browser without script: it follows links, submits forms and keeps cookies."""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import unescape
from html.parser import HTMLParser
from typing import Any

import httpx2
from fastapi import FastAPI

from api.dashboard.site import DASHBOARD
from api.site.site import Site

ORIGIN = "http://hookfast.test"


class Forms(HTMLParser):
    """The forms of a page: their method, action and hidden fields."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, str, dict[str, str]]] = []
        self._open = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            method = given.get("method", "get").lower()
            self.found.append((method, given.get("action", ""), {}))
            self._open = True
        elif tag == "input" and self._open and given.get("type") == "hidden":
            self.found[-1][2][given["name"]] = given.get("value", "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._open = False

    def posting(self) -> list[str]:
        """Return the actions of the POST forms."""
        return [action for method, action, _ in self.found if method == "post"]


def text_of(html: str) -> str:
    """Return the text of a page in one line."""
    body = html.partition("<main")[2]
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())


class Visitor:
    """A person with a browser, on the dashboard or on another site."""

    def __init__(self, client: httpx2.AsyncClient, site: Site = DASHBOARD) -> None:
        self.client = client
        self._site = site
        self._csrf: dict[str, str] = {}

    async def get(self, path: str, **options: Any) -> httpx2.Response:
        """Get a page, without following redirects."""
        return await self.client.get(path, follow_redirects=False, **options)

    async def csrf(self) -> str:
        """Return the CSRF token of this session's forms."""
        session = str(dict(self.client.cookies).get(self._site.cookie))
        if session not in self._csrf:
            page = await self.client.get(f"{self._site.home}/nothing", follow_redirects=True)
            found = re.search(r'name="csrf" value="([0-9a-f]+)"', page.text)
            assert found is not None, page.text
            self._csrf[session] = found[1]
        return self._csrf[session]

    async def post(self, path: str, **fields: Any) -> httpx2.Response:
        """Submit a form of this session, with the token of a newly loaded page unless `once` is
        given."""
        token = fields.pop("csrf", None) or await self.csrf()
        own = {"csrf": token, "once": secrets.token_urlsafe(16)}
        return await self.client.post(path, data=own | fields, follow_redirects=False)

    async def submit(self, path: str, **fields: Any) -> str:
        """Submit a form, and return the page that it redirects to."""
        answer = await self.post(path, **fields)
        assert answer.status_code == 303, answer.text
        return (await self.client.get(answer.headers["location"])).text


@asynccontextmanager
async def browser(
    app: FastAPI,
    *,
    address: str = "203.0.113.1",
    origin: str = ORIGIN,
    site: Site = DASHBOARD,
) -> AsyncIterator[Visitor]:
    """A browser without a session."""
    transport = httpx2.ASGITransport(app, client=(address, 1234))
    async with httpx2.AsyncClient(transport=transport, base_url=origin) as client:
        yield Visitor(client, site)


@asynccontextmanager
async def signed_in(app: FastAPI, key: str, **options: Any) -> AsyncIterator[Visitor]:
    """A browser that is signed in with this key."""
    async with browser(app, **options) as visitor:
        answer = await sign_in(visitor, key)
        assert answer.status_code == 303, answer.text
        yield visitor


async def sign_in(visitor: Visitor, key: str, **fields: str) -> httpx2.Response:
    """Submit the sign-in form."""
    page = await visitor.get("/dashboard/sign-in")
    found = re.search(r'name="csrf" value="([0-9a-f]+)"', page.text)
    assert found is not None
    return await visitor.post("/dashboard/sign-in", csrf=found[1], key=key, **fields)


@asynccontextmanager
async def tenant_visitor(
    app: FastAPI, client: httpx2.AsyncClient, tenant_id: str, *, scope: str = "tenant"
) -> AsyncIterator[Visitor]:
    """A browser that is signed in with a new key of this tenant."""
    created = await client.post(
        f"/tenants/{tenant_id}/api-keys", json={"scope": scope, "name": "dashboard"}
    )
    assert created.status_code == 201, created.text
    async with signed_in(app, created.json()["key"]) as visitor:
        yield visitor

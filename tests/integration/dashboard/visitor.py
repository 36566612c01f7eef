"""A browser without script: follows links, sends the forms it finds, keeps cookies, reads."""

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

ORIGIN = "http://hookfast.test"


class Forms(HTMLParser):
    """The forms of a page: method, action, and the names and values of their hidden fields."""

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
        """The actions of the forms that post."""
        return [action for method, action, _ in self.found if method == "post"]


def text_of(html: str) -> str:
    """What a page says, in one line."""
    body = html.partition("<main")[2]
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())


class Visitor:
    """Somebody with a browser."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self.client = client
        self._csrf: dict[str, str] = {}

    async def get(self, path: str, **options: Any) -> httpx2.Response:
        """A page, or where it leads to."""
        return await self.client.get(path, follow_redirects=False, **options)

    async def csrf(self) -> str:
        """The token that the forms of this session carry."""
        session = str(dict(self.client.cookies).get("hookfast-session"))
        if session not in self._csrf:
            page = await self.client.get("/dashboard/nothing", follow_redirects=True)
            found = re.search(r'name="csrf" value="([0-9a-f]+)"', page.text)
            assert found is not None, page.text
            self._csrf[session] = found[1]
        return self._csrf[session]

    async def post(self, path: str, **fields: Any) -> httpx2.Response:
        """Send a form of a page of this session: of a page that was loaded for it, unless `once`
        says of which."""
        token = fields.pop("csrf", None) or await self.csrf()
        own = {"csrf": token, "once": secrets.token_urlsafe(16)}
        return await self.client.post(path, data=own | fields, follow_redirects=False)

    async def posted(self, path: str, **fields: Any) -> str:
        """Send a form; the page that it leads to."""
        answer = await self.post(path, **fields)
        assert answer.status_code == 303, answer.text
        return (await self.client.get(answer.headers["location"])).text


@asynccontextmanager
async def browser(
    app: FastAPI, *, address: str = "203.0.113.1", origin: str = ORIGIN
) -> AsyncIterator[Visitor]:
    """A browser in which nobody is signed in."""
    transport = httpx2.ASGITransport(app, client=(address, 1234))
    async with httpx2.AsyncClient(transport=transport, base_url=origin) as client:
        yield Visitor(client)


@asynccontextmanager
async def signed_in(app: FastAPI, key: str, **options: Any) -> AsyncIterator[Visitor]:
    """A browser in which the owner of this key is signed in."""
    async with browser(app, **options) as visitor:
        answer = await sign_in(visitor, key)
        assert answer.status_code == 303, answer.text
        yield visitor


async def sign_in(visitor: Visitor, key: str, **fields: str) -> httpx2.Response:
    """Fill in the form and send it."""
    page = await visitor.get("/dashboard/sign-in")
    found = re.search(r'name="csrf" value="([0-9a-f]+)"', page.text)
    assert found is not None
    return await visitor.post("/dashboard/sign-in", csrf=found[1], key=key, **fields)


@asynccontextmanager
async def tenant_visitor(
    app: FastAPI, client: httpx2.AsyncClient, tenant_id: str, *, scope: str = "tenant"
) -> AsyncIterator[Visitor]:
    """A browser in which somebody of this tenant is signed in."""
    made = await client.post(
        f"/tenants/{tenant_id}/api-keys", json={"scope": scope, "name": "dashboard"}
    )
    assert made.status_code == 201, made.text
    async with signed_in(app, made.json()["key"]) as visitor:
        yield visitor

"""The guide: every page, in every language, complete in itself and in the customer's words."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI

from api.portal.guide import PAGES
from api.portal.snippets import LANGUAGES, challenge_snippet, verify_snippet
from tests.support.api_client import OPERATOR_KEY, client_with, development_settings, running_app

pytestmark = pytest.mark.anyio

PATHS = ("/guide", *(f"/guide/{page.slug}" for page in PAGES))
ORIGIN = "http://hookfast.test"
NOT_OURS = re.compile(
    r"hookfast|circuit|tenant|\bjobs?\b|operator|workflow|temporal|dead letter|subscription", re.I
)


@pytest.fixture
async def app(sqlite_url: str, tmp_path: Path) -> AsyncIterator[FastAPI]:
    settings = development_settings(sqlite_url, tmp_path).model_copy(update={"portal_name": "Acme"})
    async with running_app(settings) as app:
        yield app


def reader(app: FastAPI) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url=ORIGIN)


def prose(html: str) -> str:
    """The text of a page without its code."""
    main = html[html.index("<main") : html.index("</main>")]
    without_code = re.sub(r"<(pre|code)\b.*?</\1>", " ", main, flags=re.DOTALL)
    return unescape(re.sub(r"<[^>]*>", " ", without_code))


async def test_every_page_is_complete_in_itself(app: FastAPI) -> None:
    async with reader(app) as client:
        pages = {path: (await client.get(path)).text for path in PATHS}
    assert "Acme" in prose(pages["/guide"])
    ids = {path: re.findall(r' id="([^"]+)"', html) for path, html in pages.items()}
    for path, html in pages.items():
        assert NOT_OURS.findall(prose(html)) == [], path
        assert len(ids[path]) == len(set(ids[path])), path
        assert len(html) < 30_000, path
        # nothing is loaded from elsewhere
        assert re.findall(r'(?:src|<link[^>]* href)="(?!/|data:)([^"]+)', html) == [], path
        assert re.search(r"<h2(?! id=)", html) is None, path
        for link in re.findall(r'href="(/guide[^"?]*|#[^"]*)"', html):
            page, _, anchor = link.partition("#")
            assert (page or path) in pages, (path, link)
            assert not anchor or anchor in ids[page or path], (path, link)


async def test_language_of_the_code_is_chosen_and_remembered_without_script(app: FastAPI) -> None:
    async with reader(app) as client:
        for language in LANGUAGES:
            chosen = await client.get(f"/guide/verify?language={language}")
            code = verify_snippet(language, signatures=["standard"])
            assert code.strip() in unescape(chosen.text)
            challenge = unescape((await client.get("/guide/challenge")).text)  # by the cookie
            assert challenge_snippet(language, mode="header").strip() in challenge
            assert challenge_snippet(language, mode="query").strip() in challenge
        for odd in ("cobol", "", "%00", "Go", "x" * 5_000):
            page = await client.get(f"/guide/verify?language={odd}")
            assert page.status_code == 200
            assert verify_snippet("java", signatures=["standard"]).strip() in unescape(page.text)


async def test_unknown_page_is_not_found(app: FastAPI) -> None:
    async with reader(app) as client:
        for path in ("/guide/nothing", "/guide/a/b", "/guide/", "/guide/frame", "/guide/%00"):
            answer = await client.get(path)
            assert answer.status_code == 404, path
            assert "There is no such page in the guide." in answer.text


async def test_theme_is_chosen_without_leaving_the_page(app: FastAPI) -> None:
    async with reader(app) as client:
        page = await client.get("/guide/retries?language=go")
        csrf = re.search(r'name="csrf" value="([^"]+)"', page.text)
        back = re.search(r'name="back" value="([^"]+)"', page.text)
        assert csrf
        assert back
        form = {"csrf": csrf[1], "back": unescape(back[1]), "theme": "dark"}
        answer = await client.post("/portal/theme", data=form)
        assert answer.headers["location"] == "/guide/retries?language=go"
        assert 'data-theme="dark"' in (await client.get("/guide")).text
        form["back"] = "/guidebook"
        answer = await client.post("/portal/theme", data=form)
        assert answer.headers["location"] == "/portal"


async def test_portal_session_has_its_menu_and_its_look(app: FastAPI) -> None:
    async with client_with(app, OPERATOR_KEY) as client:
        tenant = (await client.post("/tenants", json={"name": "Shop"})).json()["id"]
        link = (await client.post(f"/tenants/{tenant}/portal-links", json={})).json()["url"]
    async with reader(app) as client:
        assert "Event catalogue" not in (await client.get("/guide")).text
        await client.get(ORIGIN + link[link.index("/portal") :])
        assert "Event catalogue" in (await client.get("/guide/verify")).text

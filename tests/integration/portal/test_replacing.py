"""A portal link replaces a session of another tenant only when its visitor says so."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import httpx2
import pytest
from fastapi import FastAPI

from hookfast.settings.settings import Settings
from hookfast.storage.accounts import sessions
from tests.integration.dashboard.visitor import Forms, Visitor
from tests.integration.portal.links import Portal

pytestmark = pytest.mark.anyio

FRAMES = [
    {"Sec-Fetch-Dest": "iframe", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Dest": "iframe", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Dest": "frame", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Site": "same-site"},
]
UNSEEN = [
    *(
        {"Sec-Fetch-Dest": destination, "Sec-Fetch-Site": "same-site"}
        for destination in ("embed", "object", "fencedframe", "image", "script", "style", "empty")
    ),
    {"Sec-Fetch-Dest": "document", "Sec-Purpose": "prefetch;prerender"},
    {"Sec-Fetch-Dest": "document", "Sec-Purpose": "prefetch"},
    {"Purpose": "prefetch"},
]
"""What a page can load without its visitor seeing that it is the portal."""
TABS = [
    {},  # an old browser, or one that is on http
    {"Sec-Fetch-Dest": "document", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Site": "same-site"},
]


@pytest.fixture(params=[False, True], ids=["no frames allowed", "frames allowed"])
async def may_frame(
    request: pytest.FixtureRequest, app: FastAPI, settings: Settings
) -> AsyncIterator[bool]:
    """Whether the settings allow a site to embed the portal."""
    origins = ("https://app.example.com",) if request.param else ()
    before = app.state.context
    changed = settings.model_copy(update={"portal_frame_origins": origins})
    app.state.context = replace(before, settings=changed)
    yield request.param
    app.state.context = before


async def sees_its_own(visitor: Visitor) -> bool:
    page = await visitor.get("/portal/endpoints")
    return page.status_code == 200 and "other_receiver" in page.text


def question(answer: httpx2.Response) -> dict[str, str]:
    """Return the fields of the form that asks."""
    assert answer.status_code == 200
    assert "Open another account" in answer.text
    assert "hookfast-portal=" not in str(answer.headers.get_list("set-cookie"))
    ((method, fields),) = (
        (method, given) for method, at, given in Forms(answer.text).found if at == "/portal/open"
    )
    assert method == "post"
    return fields


@pytest.mark.usefixtures("may_frame")
@pytest.mark.parametrize("fetch", [*TABS, *FRAMES, *UNSEEN])
async def test_link_of_another_tenant_asks_first_wherever_it_is_opened(
    portal: Portal, fetch: dict[str, str]
) -> None:
    async with portal.customer(portal.own) as visitor:
        cookie = dict(visitor.client.cookies)["hookfast-portal"]
        question(await visitor.get(await portal.link(portal.other), headers=fetch))
        assert dict(visitor.client.cookies)["hookfast-portal"] == cookie
        assert await sees_its_own(visitor)
    assert await portal.sessions(portal.other) == 0


async def test_link_in_a_mail_asks_too_and_so_does_the_other_way_round(portal: Portal) -> None:
    async with portal.customer(portal.other) as visitor:
        question(await portal.mailed(visitor))
    async with portal.guest() as visitor:
        assert (await portal.mailed(visitor)).status_code == 303
        question(await visitor.get(await portal.link(portal.other)))


@pytest.mark.parametrize("fetch", [*TABS, FRAMES[0]])
@pytest.mark.usefixtures("may_frame")
async def test_visitor_who_says_so_gets_the_other_portal(
    portal: Portal, fetch: dict[str, str]
) -> None:
    url = await portal.link(portal.other)
    posting = {name: value for name, value in fetch.items() if name != "Sec-Fetch-Site"}
    async with portal.customer(portal.own) as visitor:
        fields = question(await visitor.get(url + "&theme=dark&accent=%230a7", headers=fetch))
        wrong = await visitor.client.post("/portal/open", data=fields, headers=posting)
        assert wrong.status_code == 422  # the accent has three digits
        assert await sees_its_own(visitor)
        del fields["accent"]
        sent = await visitor.client.post(
            "/portal/open", data=fields, headers=posting, follow_redirects=False
        )
        assert sent.headers["location"] == "/portal"
        assert await portal.sessions(portal.own) == 0
        page = await visitor.get("/portal/endpoints")
        assert "other_receiver" not in page.text
        assert 'data-theme="dark"' in page.text
        # the same link, and another one of the same tenant, need no question
        for again in (url, await portal.link(portal.other, scope="tenant")):
            assert (await visitor.get(again)).status_code == 303
    assert await portal.sessions(portal.other) == 1


async def test_answer_must_come_from_the_page_that_asks(portal: Portal) -> None:
    url = await portal.link(portal.other)
    async with portal.customer(portal.own) as visitor, portal.guest() as attacker:
        (others,) = {
            given["csrf"] for *_, given in Forms((await attacker.get("/portal/ended")).text).found
        }
        fields = question(await visitor.get(url))
        for token in ("", "forged", others, await visitor.csrf()):
            form = fields | {"csrf": token}
            assert (await visitor.client.post("/portal/open", data=form)).status_code == 403
        for site in ("same-site", "cross-site"):
            answer = await visitor.client.post(
                "/portal/open", data=fields, headers={"Sec-Fetch-Site": site}
            )
            assert answer.status_code == 403
        assert await sees_its_own(visitor)


@pytest.mark.parametrize("fetch", UNSEEN)
@pytest.mark.usefixtures("may_frame")
async def test_link_begins_no_session_where_its_visitor_would_not_see_the_portal(
    portal: Portal, fetch: dict[str, str]
) -> None:
    """Such as in an image: what the visitor enters later would go to somebody else's portal."""
    async with portal.guest() as visitor:
        answer = await visitor.get(await portal.link(portal.own), headers=fetch)
        assert answer.status_code == 403
        assert "hookfast-portal" not in dict(visitor.client.cookies)
    assert await portal.sessions(portal.own) == 0


@pytest.mark.parametrize("fetch", FRAMES)
async def test_link_opens_in_a_frame_only_if_a_site_may_embed_the_portal(
    portal: Portal, may_frame: bool, fetch: dict[str, str]
) -> None:
    async with portal.guest(origin="https://hooks.example.com") as visitor:
        path = (await portal.link(portal.own)).partition("/portal")[2]
        answer = await visitor.get(f"/portal{path}", headers=fetch)
        assert answer.status_code == (303 if may_frame else 403)
        cookies = str(answer.headers.get_list("set-cookie"))
        assert ("__Host-hookfast-portal=" in cookies) is may_frame
        assert ("Partitioned" in cookies) is may_frame
        page = await visitor.get("/portal/ended", headers=fetch)
        assert ('class="brand"' in page.text) is not may_frame  # a tab has its own header


async def test_head_request_of_a_link_begins_no_session(portal: Portal) -> None:
    """Programs that check links send it."""
    url = await portal.link(portal.other)
    async with portal.customer(portal.own) as visitor:
        answer = await visitor.client.head(url)
        assert answer.status_code == 405
        assert "GET" in answer.headers["allow"]
        assert await sees_its_own(visitor)
    assert await portal.sessions(portal.other) == 0


async def test_link_opened_a_hundred_times_in_a_browser_has_one_session(portal: Portal) -> None:
    url = await portal.link(portal.own)
    async with portal.guest() as visitor:
        for _ in range(100):
            assert (await visitor.get(url)).status_code == 303
        assert await sees_its_own(visitor)
    assert await portal.sessions(portal.own) == 1


async def test_link_that_is_opened_without_end_ends_only_its_own_sessions(
    portal: Portal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MOST_OF_LINK", 3)
    flooded = await portal.link(portal.own, endpoint_id=portal.shop["endpoint_id"])
    path, _, sig = flooded.rpartition("=")
    # base64 has several spellings of the same bytes
    spelled = f"{path}={sig.replace('-', '%2B').replace('_', '%2F')}{'%3D' * (-len(sig) % 4)}"
    assert spelled != flooded
    async with (
        portal.customer(portal.own) as visitor,
        portal.guest() as first,
        portal.guest() as newest,
    ):
        await first.get(flooded)
        for number in range(10):
            async with portal.guest() as another:
                url = spelled if number % 2 else flooded
                assert (await another.get(url)).status_code == 303
        await newest.get(flooded)
        assert await sees_its_own(visitor)
        assert (await first.get("/portal/activity")).headers["location"].startswith("/portal/ended")
        assert (await newest.get("/portal/activity")).headers["location"] != "/portal/ended"
    assert await portal.sessions(portal.own) == 1 + 3


async def test_guessed_link_asks_nothing_and_ends_no_session(portal: Portal) -> None:
    async with portal.guest(address="203.0.113.99") as visitor:
        await visitor.get(await portal.link(portal.own))
        assert (await visitor.get("/portal/open?sig=guessed")).status_code == 401
        assert await sees_its_own(visitor)

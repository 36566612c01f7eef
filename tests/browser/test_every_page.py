"""Every page in a real browser: accessible, usable by keyboard, in a light and a dark theme."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, ViewportSize, expect

from api.dashboard import application as dashboard
from api.portal import application as portal
from api.portal.guide import PAGES
from api.site.page_route import PageRoute
from tests.browser.browsing import ACCESSIBILITY, NARROW, WIDE, browsing, portal_link, settle
from tests.browser.conftest import Site
from tests.browser.scene import EVENT_TYPE

OPEN = "document.querySelectorAll('details').forEach((each) => each.open = {})"
PARTS = 3
"""So many tests share the pages: all of them take two minutes on a busy machine."""
_THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
LOOKS: tuple[tuple[Literal["light", "dark"], ViewportSize], ...] = (
    ("light", WIDE),
    ("dark", NARROW),
)
ALL_LOOKS = tuple((theme, size) for size in (WIDE, NARROW) for theme in _THEMES)


def paths(site: Site) -> list[str]:
    """Return every page of both sites that the scene has data for, and some in other states."""
    scene = site.scene
    ids = {
        "tenant_id": scene.tenant_id,
        "endpoint_id": scene.broken,
        "subscription_id": scene.broken_subscription,
        "delivery_id": scene.failed,
        "event_id": scene.event_id,
        "source_id": scene.source_id,
        "inbox_id": scene.inbox_id,
        "key_id": scene.key_id,
        "test_id": scene.test_id,
        "name": EVENT_TYPE,
        "group": "circuit",
    }
    found = [
        route.path.format(**ids)
        for router in (*dashboard.routers(), *portal.routers())
        for route in router.routes
        if isinstance(route, PageRoute)
        if "GET" in route.methods and "/live/" not in route.path
        if not route.path.endswith(("/body", "/example"))  # a download, and a part of a page
        if not route.path.startswith("/dashboard/choices/")  # the options of a field
        if set(re.findall(r"\{(\w+)\}", route.path)) <= set(ids)
    ]
    return [
        *found,
        "/dashboard?window=30d",
        "/dashboard/endpoints?health=paused",
        f"/dashboard/endpoints/{scene.gone}",
        f"/dashboard/endpoints/{scene.fine}",
        f"/dashboard/endpoints/{scene.fine}/authentication",
        f"/dashboard/endpoints/{scene.fine}/authentication?kind=basic",
        f"/dashboard/endpoints/{scene.fine}/tls",
        "/dashboard/deliveries?status=paused",
        "/dashboard/deliveries?event_type=payed&endpoint_id=o&since=soon",
        "/dashboard/search?q=o",
        "/dashboard/search?q=nothing",
        "/dashboard/events?within=24h",
        f"/dashboard/deliveries/{scene.dead[0]}",
        "/dashboard/events?find=nothing",
        "/dashboard/dead-letters?reason=endpoint_disabled",
        "/dashboard/inbox?status=failed",
        "/dashboard/event-types/github.push.received",
        "/dashboard/nothing",
        f"/portal/endpoints/{scene.gone}",
        f"/portal/endpoints/{scene.fine}",
        f"/portal/activity/{scene.dead[0]}",
        f"/portal/activity/{scene.test_id}",
        "/portal/activity?kind=test",
        "/portal/activity?event_type=No&within=24h",
        "/portal/nothing",
    ]


def file_name(path: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", re.sub(r"_[0-9a-f]{32}", "", path)).strip("-")


@pytest.mark.parametrize(
    "turn", [0, *(pytest.param(turn, marks=pytest.mark.slow) for turn in range(1, len(ALL_LOOKS)))]
)
@pytest.mark.parametrize("part", range(PARTS))
def test_every_page_passes_the_accessibility_checks(
    chromium: Browser, site: Site, artefacts: Path, part: int, turn: int
) -> None:
    """Each page in one of the themes and widths, by turns; `make slow` checks the other three."""
    problems: dict[str, list[str]] = {}
    with browsing(chromium, site) as page:
        page.goto(portal_link(site))
        for place, path in list(enumerate(paths(site)))[part::PARTS]:
            theme, viewport = ALL_LOOKS[(place + turn) % len(ALL_LOOKS)]
            page.emulate_media(color_scheme=theme)
            page.set_viewport_size(viewport)
            page.goto(path)
            page.evaluate(OPEN.format("true"))
            if found := page.evaluate(ACCESSIBILITY):
                look = f"{file_name(path)}-{place:02}-{theme}-{viewport['width']}"
                problems[look] = found
                page.screenshot(path=artefacts / f"{look}.jpg", quality=75, full_page=True)
    assert problems == {}


def test_pages_are_usable_by_keyboard(chromium: Browser, site: Site) -> None:
    with browsing(chromium, site) as page:
        page.keyboard.press("Tab")
        skip = page.get_by_role("link", name="Skip to content")
        expect(skip).to_be_focused()
        expect(skip).to_be_in_viewport()
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"
        page.keyboard.press("Tab")  # the first control of the content, not of the menu
        assert page.evaluate("document.activeElement.closest('main') !== null")
        for _ in range(8):
            assert (
                page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
            ), page.evaluate("document.activeElement.outerHTML")
            page.keyboard.press("Tab")


def test_chosen_theme_is_kept(chromium: Browser, site: Site) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    with browsing(chromium, site, color_scheme="light") as page:
        light = page.evaluate(ground)
        page.get_by_role("button", name="Dark theme").click()
        expect(page.get_by_role("button", name="Dark theme", pressed=True)).to_be_visible()
        dark = page.evaluate(ground)
        assert dark != light
        page.goto("/dashboard/endpoints")
        assert page.evaluate(ground) == dark
        page.get_by_role("button", name="As the system theme").click()
        expect(page.get_by_role("button", name="As the system theme", pressed=True)).to_be_visible()
        assert page.evaluate(ground) == light


def test_guide_is_readable_by_anyone_on_any_screen(
    chromium: Browser, site: Site, artefacts: Path
) -> None:
    problems: dict[str, list[str]] = {}
    with chromium.new_context(base_url=site.origin) as context:
        page = context.new_page()
        for path in ("/guide", *(f"/guide/{each.slug}" for each in PAGES)):
            page.goto(path)
            for theme, viewport in LOOKS:
                page.emulate_media(color_scheme=theme)
                page.set_viewport_size(viewport)
                page.evaluate(OPEN.format("true"))
                found = page.evaluate(ACCESSIBILITY)
                if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                    found.append("the page is wider than the screen")
                look = f"{file_name(path)}-{theme}-{viewport['width']}"
                page.screenshot(path=artefacts / f"{look}.jpg", quality=75, full_page=True)
                if found:
                    problems[look] = found
    assert problems == {}


def test_language_of_the_guide_is_chosen_without_script(chromium: Browser, site: Site) -> None:
    options = {"base_url": site.origin, "viewport": NARROW, "java_script_enabled": False}
    with chromium.new_context(**options) as context:
        page = context.new_page()
        page.goto("/guide/verify")
        page.get_by_role("link", name="Java", exact=True).click()
        expect(page.get_by_role("group", name="Receiver.java")).to_contain_text("class Receiver")
        page.get_by_text("All pages of the guide").click()
        page.get_by_role("link", name="The challenge", exact=True).click()
        expect(page.get_by_role("group", name="Receiver.java").first).to_be_visible()


def test_api_reference_is_accessible_and_in_our_colours(chromium: Browser, site: Site) -> None:
    complaints: list[str] = []
    context = chromium.new_context(base_url=site.origin, viewport=WIDE, color_scheme="light")
    page = context.new_page()
    page.set_default_timeout(60_000)
    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto("/docs#/Events/emit_event")
    page.get_by_role("button", name="Try it out").click()
    expect(page.get_by_label("Request body")).to_be_visible()
    expect(page.get_by_role("heading", name="Webhooks", exact=True)).to_have_count(1)
    problems: dict[str, list[str]] = {}
    for theme, viewport in LOOKS:
        page.emulate_media(color_scheme=theme)
        page.set_viewport_size(viewport)
        settle(page)  # Swagger UI fades its colours, and the page names new controls a frame later
        found = page.evaluate(ACCESSIBILITY)
        # the tables and small buttons of Swagger UI are as it makes them
        problems[theme] = [each for each in found if not each.startswith(("1.3.1", "2.5.8"))]
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.keyboard.press("Home")
    page.get_by_role("link", name="Dashboard").click()
    page.wait_for_url("**/dashboard/sign-in**")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == ground
    context.close()
    assert problems == {"light": [], "dark": []}
    assert complaints == []

"""Every page in a real browser: accessible, tidy and light at every width, usable by keyboard, in a
light and a dark theme."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Page, Response, ViewportSize, expect

from api.dashboard import application as dashboard
from api.portal import application as portal
from api.portal.guide import PAGES
from api.site.page_route import PageRoute
from tests.browser.browsing import ACCESSIBILITY, browsing, no_complaints, portal_link, settle
from tests.browser.chromium import NARROW, WIDE, Chromium
from tests.browser.conftest import Site
from tests.browser.scene import EVENT_TYPE

MEASURE = (Path(__file__).parent / "looks.js").read_text()
OPEN = "document.querySelectorAll('details').forEach((each) => each.open = {})"
PARTS = 3
"""So many tests share the pages: all of them take two minutes on a busy machine."""
_THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
LOOKS: tuple[tuple[Literal["light", "dark"], ViewportSize], ...] = (
    ("light", WIDE),
    ("dark", NARROW),
)
ALL_LOOKS = tuple((theme, size) for theme in _THEMES for size in (WIDE, NARROW))
MEDIUM: tuple[ViewportSize, ...] = ({"width": 1280, "height": 800}, {"width": 768, "height": 1024})
HEAVIEST = 100_000
"""The most bytes of a page's HTML, style sheets and script together, not compressed."""


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


@dataclass(frozen=True, slots=True)
class Visit:
    """What was wrong with the accessibility, the looks and the weight of the visited pages."""

    inaccessible: dict[str, list[str]] = field(default_factory=dict)
    untidy: dict[str, list[str]] = field(default_factory=dict)
    heavy: dict[str, int] = field(default_factory=dict)


SLOW_TURNS = [pytest.param(turn, marks=pytest.mark.slow) for turn in range(1, len(ALL_LOOKS))]


def _visit(chromium: Chromium, site: Site, artefacts: Path, part: int, turn: int) -> Visit:
    """Load each page of the part in one of the themes and widths, by turns, and check everything.
    The first turn measures the looks at the widest and the narrowest size, others between them."""
    found = Visit()
    assets: dict[str, int] = {}
    with browsing(chromium, site, portal_link(site)) as page:
        for place, path in list(enumerate(paths(site)))[part::PARTS]:
            theme, viewport = ALL_LOOKS[(place + turn) % len(ALL_LOOKS)]
            page.emulate_media(color_scheme=theme)
            page.set_viewport_size(viewport)
            response = page.goto(path)
            assert response is not None
            if (weight := _weight(page, response, assets)) > HEAVIEST:
                found.heavy[path] = weight
            page.evaluate(OPEN.format("true"))
            if problems := page.evaluate(ACCESSIBILITY):
                look = f"{file_name(path)}-{place:02}-{theme}-{viewport['width']}"
                found.inaccessible[look] = problems
                page.screenshot(path=artefacts / f"{look}.jpg", quality=75, full_page=True)
            # the present size comes first, and the next page begins with the other
            both = (NARROW, WIDE) if viewport is NARROW else (WIDE, NARROW)
            for size in (*MEDIUM, WIDE) if turn else both:
                page.set_viewport_size(size)
                for what in ("charts", "tiles", "sideways", *(["cards"] * (size is NARROW))):
                    if problems := _measured(page, what):
                        found.untidy[f"{path} {size['width']} {what}"] = problems
                if size is WIDE and (problems := _measured(page, "baselines")):
                    found.untidy[f"{path} {size['width']} baselines"] = problems
    return found


def _measured(page: Page, what: str) -> list[str]:
    """Return what is wrong with the looks of the open page."""
    found: list[str] = page.evaluate(f"({MEASURE}).{what}()")
    return found


def _weight(page: Page, response: Response, assets: dict[str, int]) -> int:
    """Return the bytes of a page and its assets, whose sizes are kept in `assets`."""
    names = set(re.findall(r'"(/assets/[^"]+\.(?:css|js))"', response.text()))
    for name in names - assets.keys():
        assets[name] = len(page.request.get(name).body())
    return len(response.body()) + sum(assets[name] for name in names)


@pytest.mark.parametrize("turn", [0, *SLOW_TURNS])
@pytest.mark.parametrize("part", range(PARTS))
def test_every_page_passes_the_accessibility_checks_and_looks_tidy_at_every_width(
    chromium: Chromium, site: Site, artefacts: Path, part: int, turn: int
) -> None:
    """Each page in one of the themes and widths, by turns; `make slow` checks the other three. The
    looks at the widest and the narrowest; `make slow` checks those between them."""
    found = _visit(chromium, site, artefacts, part, turn)
    assert found.inaccessible == {}
    assert found.untidy == {}
    assert found.heavy == {}


def test_pages_are_usable_by_keyboard(chromium: Chromium, site: Site) -> None:
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


def test_chosen_theme_is_kept(chromium: Chromium, site: Site) -> None:
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
    chromium: Chromium, site: Site, artefacts: Path
) -> None:
    problems: dict[str, list[str]] = {}
    with chromium.page() as page:
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
                if found:
                    problems[look] = found
                    page.screenshot(path=artefacts / f"{look}.jpg", quality=75, full_page=True)
    assert problems == {}


def test_language_of_the_guide_is_chosen_without_script(chromium: Chromium, site: Site) -> None:
    with chromium.page(viewport=NARROW, java_script_enabled=False) as page:
        page.goto("/guide/verify")
        page.get_by_role("link", name="Java", exact=True).click()
        expect(page.get_by_role("group", name="Receiver.java")).to_contain_text("class Receiver")
        page.get_by_text("All pages of the guide").click()
        page.get_by_role("link", name="The challenge", exact=True).click()
        expect(page.get_by_role("group", name="Receiver.java").first).to_be_visible()


def test_api_reference_is_accessible_and_in_our_colours(chromium: Chromium, site: Site) -> None:
    problems: dict[str, list[str]] = {}
    with chromium.page() as page, no_complaints(page, warnings=False):
        page.goto("/docs#/Events/emit_event")
        page.get_by_role("button", name="Try it out").click()
        expect(page.get_by_label("Request body")).to_be_visible()
        expect(page.get_by_role("heading", name="Webhooks", exact=True)).to_have_count(1)
        for theme, viewport in LOOKS:
            page.emulate_media(color_scheme=theme)
            page.set_viewport_size(viewport)
            settle(page)  # Swagger UI fades its colours, and names new controls a frame later
            found = page.evaluate(ACCESSIBILITY)
            # the tables and small buttons of Swagger UI are as it makes them
            problems[theme] = [each for each in found if not each.startswith(("1.3.1", "2.5.8"))]
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.keyboard.press("Home")
        page.get_by_role("link", name="Dashboard").click()
        page.wait_for_url("**/dashboard/sign-in**")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == ground
    assert problems == {"light": [], "dark": []}


def test_menu_and_filters_of_a_phone_work_without_script(chromium: Chromium, site: Site) -> None:
    with browsing(chromium, site, viewport=NARROW, java_script_enabled=False) as page:
        menu = page.get_by_role("navigation", name="Main")
        expect(menu).to_be_hidden()
        page.get_by_role("button", name="Menu").click()
        expect(menu.get_by_text("Administer")).to_be_visible()
        expect(page.get_by_role("button", name="Sign out")).to_be_in_viewport()
        menu.get_by_role("link", name="Deliveries").click()
        page.wait_for_url("**/dashboard/deliveries")
        expect(menu).to_be_hidden()
        status = page.get_by_label("Status")
        expect(status).to_be_hidden()
        page.get_by_role("button", name="Filter deliveries").click()
        status.select_option("dead")
        page.get_by_role("button", name="Filter", exact=True).click()
        page.wait_for_url("**/dashboard/deliveries?*status=dead*")
        # a tap anywhere on a card opens what its title links to
        card = page.get_by_role("table").get_by_role("row").nth(1)
        box = card.bounding_box()
        assert box is not None
        page.mouse.click(box["x"] + box["width"] - 12, box["y"] + box["height"] - 12)
        page.wait_for_url("**/dashboard/deliveries/dlv_*")
        # an invalid filter is shown at once, with its error
        page.goto("/dashboard/deliveries?since=soon")
        expect(page.get_by_role("alert")).to_be_visible()


@pytest.mark.slow
def test_screenshots_of_every_page(chromium: Chromium, site: Site, artefacts: Path) -> None:
    folder = artefacts / "pages"
    folder.mkdir(exist_ok=True)
    sizes = (WIDE, *MEDIUM, NARROW)
    with browsing(chromium, site, portal_link(site)) as page:
        for place, path in enumerate(paths(site)):
            page.goto(path)
            for theme in _THEMES:
                page.emulate_media(color_scheme=theme)
                for size in sizes:
                    page.set_viewport_size(size)
                    name = f"{place:02}-{file_name(path)}-{size['width']}-{theme}.jpg"
                    page.screenshot(path=folder / name, quality=75, full_page=True)
    assert len(list(folder.iterdir())) >= len(paths(site)) * len(sizes) * len(_THEMES)

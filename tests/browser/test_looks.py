"""How pages look, measured: baselines, labels, rows of tiles, cards on phones, and their weight."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from tests.browser.browsing import NARROW, WIDE, browsing, portal_link
from tests.browser.conftest import Site
from tests.browser.test_every_page import OPEN, PARTS, file_name, paths

MEASURE = (Path(__file__).parent / "looks.js").read_text()
SIZES: tuple[ViewportSize, ...] = (
    WIDE,
    {"width": 1280, "height": 800},
    {"width": 768, "height": 1024},
    NARROW,
)
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
HEAVIEST = 100_000
"""The most bytes of a page's HTML, style sheets and script together, not compressed."""


def problems(page: Page, what: str) -> list[str]:
    """Return what is wrong on the open page."""
    found: list[str] = page.evaluate(f"({MEASURE}).{what}()")
    return found


@pytest.mark.parametrize(
    "sizes", [(WIDE, NARROW), pytest.param(SIZES[1:-1], marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("part", range(PARTS))
def test_pages_look_tidy_at_every_width(
    chromium: Browser, site: Site, part: int, sizes: Sequence[ViewportSize]
) -> None:
    """The widest and the narrowest; `make slow` checks those between them."""
    wrong: dict[str, list[str]] = {}
    weights: dict[str, int] = {}
    assets: dict[str, int] = {}
    with browsing(chromium, site) as page:
        page.goto(portal_link(site))
        for path in paths(site)[part::PARTS]:
            response = page.goto(path)
            assert response is not None
            weights[path] = len(response.body())
            for asset in set(re.findall(r'"(/assets/[^"]+\.(?:css|js))"', response.text())):
                if asset not in assets:
                    assets[asset] = len(page.request.get(asset).body())
                weights[path] += assets[asset]
            page.evaluate(OPEN.format("true"))
            for size in sizes:
                page.set_viewport_size(size)
                checks = ["charts", "tiles", "sideways"] + ["cards"] * (size is NARROW)
                for what in checks:
                    if found := problems(page, what):
                        wrong[f"{path} {size['width']} {what}"] = found
            page.set_viewport_size(WIDE)
            if found := problems(page, "baselines"):
                wrong[f"{path} baselines"] = found
    assert wrong == {}
    assert {path: weight for path, weight in weights.items() if weight > HEAVIEST} == {}


def test_menu_and_filters_of_a_phone_work_without_script(chromium: Browser, site: Site) -> None:
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
def test_screenshots_of_every_page(chromium: Browser, site: Site, artefacts: Path) -> None:
    folder = artefacts / "pages"
    folder.mkdir(exist_ok=True)
    with browsing(chromium, site) as page:
        page.goto(portal_link(site))
        for place, path in enumerate(paths(site)):
            page.goto(path)
            for theme in THEMES:
                page.emulate_media(color_scheme=theme)
                for size in SIZES:
                    page.set_viewport_size(size)
                    name = f"{place:02}-{file_name(path)}-{size['width']}-{theme}.jpg"
                    page.screenshot(path=folder / name, quality=75, full_page=True)
    assert len(list(folder.iterdir())) >= len(paths(site)) * len(SIZES) * len(THEMES)

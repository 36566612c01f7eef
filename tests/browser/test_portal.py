"""What a customer does in the portal, on a phone and a desk, with and without script, embedded in
another site and in a tab."""

from __future__ import annotations

from typing import Literal

import pytest
from playwright.sync_api import Frame, Page, ViewportSize, expect

from tests.browser.browsing import ACCESSIBILITY, portal_link, posted
from tests.browser.chromium import NARROW, WIDE, Chromium
from tests.browser.conftest import Site
from tests.browser.customers import Customers
from tests.browser.scene import EVENT_TYPE
from tests.support.serving import serving

Theme = Literal["light", "dark"]

# Every pair of two of the four differences is here at least once, every combination in `slow`.
SOME = [
    (NARROW, "light", True, False),
    (NARROW, "dark", False, True),
    (WIDE, "light", False, False),
    (WIDE, "dark", True, False),
    (WIDE, "light", True, True),
    (NARROW, "dark", True, True),
]
ALL = [
    (size, theme, script, framed)
    for size in (NARROW, WIDE)
    for theme in ("light", "dark")
    for script in (True, False)
    for framed in (True, False)
]
WAYS = [
    *(pytest.param(*way) for way in SOME),
    *(pytest.param(*way, marks=pytest.mark.slow) for way in ALL if way not in SOME),
]


@pytest.mark.parametrize(("size", "theme", "script", "framed"), WAYS)
def test_customer_adds_an_endpoint_sends_a_test_and_sees_request_and_answer(
    chromium: Chromium,
    site: Site,
    customers: str,
    size: ViewportSize,
    theme: Theme,
    script: bool,
    framed: bool,
) -> None:
    """No event type is typed, and no page outside of the portal is needed."""
    options = {"viewport": size, "color_scheme": theme, "java_script_enabled": script}
    with chromium.page(**options) as tab:
        page = opened(tab, portal_link(site), customers if framed else None)
        page.get_by_role("link", name="New endpoint").click()
        page.locator("[name=url]").fill(f"{customers}/{size['width']}")
        if script:
            page.get_by_label("Find an event").fill("invoice")
            expect(page.get_by_text("github.push.received", exact=True)).to_be_hidden()
        page.get_by_label(EVENT_TYPE).check()
        if not script:
            page.get_by_role("button", name="Count").click()
            expect(page.get_by_label(EVENT_TYPE)).to_be_checked()
        expect(page.get_by_text("Matches 1 event")).to_be_visible()
        if script:
            # a wider tick includes it: it looks ticked, and cannot be ticked as well
            branch, leaf = page.get_by_label("All of order"), page.get_by_label(EVENT_TYPE)
            leaf.uncheck()
            expect(page.get_by_text("Nothing chosen yet")).to_be_visible()
            branch.check()
            expect(leaf).to_be_disabled()
            leaf.click(force=True)
            expect(leaf).not_to_be_checked()
            check(page, script)
            branch.uncheck()
            leaf.check()
            expect(page.get_by_text("Matches 1 event")).to_be_visible()
            page.get_by_text("Example of " + EVENT_TYPE).click()
            expect(page.get_by_role("group", name="Example of " + EVENT_TYPE)).to_be_visible()
        check(page, script)
        page.get_by_role("button", name="Create endpoint").click()

        expect(page.get_by_role("group", name="The secret")).to_contain_text("whsec_")
        secret = page.get_by_role("group", name="The secret").text_content()
        assert secret is not None
        for language, part in (("Ruby", "OpenSSL"), ("Python", "hmac")):
            page.get_by_text(language, exact=True).click()
            code = page.get_by_role("group", name=language)
            expect(code).to_contain_text(part)
            expect(code).to_contain_text(secret)
        check(page, script)
        page.get_by_role("link", name="Send a test").click()

        data = page.get_by_label("Data of " + EVENT_TYPE)
        expect(data).to_have_value('{\n  "invoice_id": "in_1",\n  "amount": 129900\n}')
        data.fill('{"invoice_id": "mine"}')
        page.get_by_role("button", name="Send the test").click()

        expect(page.get_by_role("group", name="Request: body")).to_contain_text('"mine"')
        expect(page.get_by_text("X-Hook-Test")).to_be_visible()
        expect(page.get_by_role("group", name="Answer: body")).to_contain_text("thank you")
        check(page, script)
        page.get_by_role("navigation", name="Main").get_by_text("Activity").click()
        row = page.get_by_role("row").nth(1)
        expect(row).to_contain_text(EVENT_TYPE)
        expect(row.get_by_text("test", exact=True)).to_be_visible()
        expect(row.get_by_text("delivered", exact=True)).to_be_visible()
        check(page, script)


def opened(tab: Page, link: str, embedding: str | None) -> Page | Frame:
    """Open a link in a tab, or in a frame of the customer's site."""
    if embedding is None:
        tab.goto(link)
        return tab
    tab.goto(f"{embedding}/?{link}")
    frame = tab.frame_locator("iframe").owner.element_handle().content_frame()
    assert frame is not None
    frame.wait_for_url("**/portal/endpoints")
    return frame


def check(page: Page | Frame, script: bool) -> None:
    if script:  # playwright evaluates without it too, but in a frame `document` has no styles then
        assert page.evaluate(ACCESSIBILITY) == []


def test_a_site_that_is_not_allowed_cannot_embed_the_portal(chromium: Chromium, site: Site) -> None:
    with serving(Customers) as stranger, chromium.page() as tab:
        with tab.expect_console_message(lambda said: "frame-ancestors" in said.text):
            tab.goto(f"{stranger}/?{portal_link(site)}")
        assert all("portal/endpoints" not in frame.url for frame in tab.frames[1:])


def test_link_of_another_account_in_a_frame_asks_first(
    chromium: Chromium, site: Site, customers: str
) -> None:
    other = posted(site, "/tenants", {"name": "Another"})["id"]
    theirs = portal_link(site, tenant_id=other)
    with chromium.page() as tab:
        tab.goto(portal_link(site))
        tab.goto(f"{customers}/?{theirs}")
        frame = tab.frame_locator("iframe")
        expect(frame.get_by_role("heading", name="Open another account")).to_be_visible()
        frame.get_by_role("link", name="Stay here").click()
        expect(frame.get_by_role("link", name="Warehouse")).to_be_visible()
        tab.goto(f"{customers}/?{theirs}")
        frame.get_by_role("button", name="Open the link").click()
        expect(frame.get_by_text("No endpoint yet")).to_be_visible()
        # the same account needs no question
        tab.goto(f"{customers}/?{theirs}")
        expect(frame.get_by_text("No endpoint yet")).to_be_visible()


@pytest.mark.parametrize("element", ["iframe", "img", "script", "object", "embed"])
def test_page_of_a_neighbour_neither_replaces_a_session_nor_begins_one_unseen(
    chromium: Chromium, site: Site, element: str
) -> None:
    """Its host is ours, as a neighbouring one of the same domain is: cookies are sent and kept."""
    other = posted(site, "/tenants", {"name": "Another"})["id"]
    theirs = portal_link(site, tenant_id=other)
    with serving(Customers) as neighbour, chromium.page() as tab:
        tab.goto(portal_link(site))
        with tab.expect_request(theirs):
            tab.goto(f"{neighbour}/{element}?{theirs}")
        tab.goto(f"{site.origin}/portal/endpoints")
        expect(tab.get_by_role("link", name="Warehouse")).to_be_visible()
        tab.context.clear_cookies()
        if element != "iframe":  # a frame is what the site's other customers use
            tab.goto(f"{neighbour}/{element}?{theirs}")
            assert "hookfast-portal" not in {one["name"] for one in tab.context.cookies()}


def test_frame_has_the_theme_and_colour_of_the_site_around_it(
    chromium: Chromium, site: Site, customers: str
) -> None:
    with chromium.page() as tab:
        page = opened(tab, portal_link(site) + "&theme=dark&accent=ffdd00", customers)
        button = page.get_by_role("link", name="New endpoint")
        style = "(each) => [getComputedStyle(each).backgroundColor, getComputedStyle(each).color]"
        assert button.evaluate(style) == ["rgb(255, 221, 0)", "rgb(0, 0, 0)"]
        assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"
        expect(page.get_by_role("button", name="Dark theme")).to_have_count(0)
        assert page.evaluate(ACCESSIBILITY) == []


def test_customer_sends_a_failed_message_again(chromium: Chromium, site: Site) -> None:
    with chromium.page(viewport=NARROW) as page:
        page.goto(portal_link(site))
        page.get_by_role("link", name="Warehouse").click()
        expect(page.get_by_text("on hold").first).to_be_visible()
        # the button is beside its heading, not a bar of its own
        edit = page.get_by_role("link", name="Edit settings").bounding_box()
        assert edit is not None
        assert edit["width"] < 100
        page.get_by_role("link", name="All activity").click()
        page.goto(f"{site.origin}/portal/activity/{site.scene.dead[0]}")
        expect(page.get_by_text("Its attempts are no longer kept.")).to_be_visible()
        page.get_by_role("button", name="Resend").click()
        expect(page.get_by_role("status").first).to_contain_text("is being resent")


@pytest.mark.parametrize(("width", "rows"), [(1024, 1), (768, 1), (700, 2), (390, 2)])
def test_header_is_tidy_at_every_width(
    chromium: Chromium, site: Site, width: int, rows: int
) -> None:
    """The line under the current section is on the lower edge of the header, also read only."""
    with chromium.page(viewport={"width": width, "height": 800}) as page:
        page.goto(portal_link(site, scope="tenant:read"))
        page.get_by_role("link", name="Ledger").click()
        expect(page.get_by_role("button", name="Live")).to_be_visible()
        expect(page.get_by_text("this link is for reading only")).to_be_visible()
        places = page.evaluate(
            """["header", "header .brand", "header .tools", "header [aria-current]"].map((each) => {
                const { top, bottom } = document.querySelector(each).getBoundingClientRect();
                return [(top + bottom) / 2, bottom];
            })"""
        )
        (_, end), (brand, _), (tools, _), (current, line) = places
        assert abs(brand - tools) <= 2
        assert (abs(current - brand) <= 4) == (rows == 1)
        assert abs(end - line) <= 1.5
        menu = "(each) => each.scrollWidth - each.clientWidth"
        assert page.locator(".sections ul").evaluate(menu) == 0

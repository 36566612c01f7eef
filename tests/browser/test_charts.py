"""Finding the answer in a real browser: from a chart to the deliveries of its bars, from the
overview to why a delivery failed, and from a setting to its form and back."""

from __future__ import annotations

import re
from datetime import datetime
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Locator, Page, expect

from hookfast.ids import time_of
from tests.browser.browsing import browsing
from tests.browser.chromium import NARROW, Chromium
from tests.browser.conftest import Site

# what the pages do without a chart is in `test_dashboard.py`, in `make test`
pytestmark = pytest.mark.slow

LISTS = re.compile(r"/dashboard/deliveries\?")


def times_of(address: str | None) -> tuple[datetime, datetime]:
    """Return the times between which a list's deliveries were created."""
    query = parse_qs(urlsplit(address or "").query)
    since, until = (datetime.fromisoformat(query[name][0]) for name in ("since", "until"))
    return since, until


def created_at(delivery_id: str) -> datetime:
    at = time_of(delivery_id)
    assert at is not None
    return at


def middle(bar: Locator) -> tuple[float, float]:
    """Return the middle of a bar on the screen."""
    box = bar.locator(".hit").bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def drag(page: Page, first: Locator, last: Locator, *, release: bool = True) -> None:
    """Drag the mouse from one bar to another."""
    page.mouse.move(*middle(first))
    page.mouse.down()
    page.mouse.move(*middle(last), steps=5)
    if release:
        page.mouse.up()


def bars_of(page: Page, name: str) -> list[Locator]:
    """Return the bars of a chart."""
    chart = page.get_by_role("group", name=name)
    expect(chart).to_be_visible()
    return chart.locator("a.step").all()


def test_two_clicks_from_the_overview_to_why_a_given_delivery_failed(
    chromium: Chromium, site: Site
) -> None:
    failed = site.scene.dead[2]
    at = created_at(failed)
    with browsing(chromium, site) as page:
        chart = page.get_by_role("group", name="Deliveries in the last hour")
        parts = [each.get_attribute("href") for each in chart.locator("a.part").all()]
        [place] = [
            place
            for place, (since, until) in enumerate(map(times_of, parts))
            if since <= at < until
        ]
        chart.locator("a.part").nth(place).click()  # the first click
        expect(page).to_have_url(re.compile(r"/dashboard/dead-letters\?"))
        page.get_by_role("table").locator(f"a[href$={failed}]").click()  # and the second
        why = page.locator("#summary")
        expect(why).to_contain_text("Dead letter: all retries are used up; 1 attempt")
        expect(why).to_be_in_viewport()
        # a failure that has just happened is one click away
        page.goto("/dashboard")
        newest = page.get_by_role("region", name="Newest failures")
        newest.get_by_role("link", name="The server answered 503").first.click()
        expect(why).to_contain_text("Failing; 2 retries over 2 min so far")
        expect(why).to_contain_text("the last answer was 503 Service Unavailable after 38 ms")
        expect(why).to_contain_text("<h1>Down for maintenance</h1>")


def test_click_and_drag_on_bars_filter_the_list(chromium: Chromium, site: Site) -> None:
    with browsing(chromium, site) as page:
        bars = bars_of(page, "Deliveries in the last hour")
        links = [bar.get_attribute("href") for bar in bars]
        drag(page, bars[30], bars[36], release=False)
        expect(page.locator("a.step.chosen")).to_have_count(7)
        page.keyboard.press("Escape")
        expect(page.locator("a.step.chosen")).to_have_count(0)
        page.mouse.up()
        page.wait_for_timeout(200)
        assert urlsplit(page.url).path == "/dashboard"
        drag(page, bars[36], bars[30])  # from right to left
        page.wait_for_url(LISTS)
        since, until = times_of(links[30])[0], times_of(links[36])[1]
        assert times_of(page.url) == (since, until)
        ids = page.locator("tbody th a").evaluate_all(
            "all => all.map(each => each.pathname.split('/').pop())"
        )
        assert ids
        assert all(since <= created_at(each) < until for each in ids)
        # the chart of the list narrows its time, and keeps its other filters
        page.goto(f"{page.url}&status=delivered")
        before = page.locator("tbody tr").count()
        bars = bars_of(page, "The matching deliveries over time")
        assert len(bars) == 7
        drag(page, bars[1], bars[2])
        page.wait_for_url(re.compile(r"status=delivered"))
        page.wait_for_url(lambda url: times_of(url)[0] > since)
        assert 0 < page.locator("tbody tr").count() < before
        bars_of(page, "The matching deliveries over time")[1].click()
        expect(page.get_by_role("group", name="The matching")).to_have_count(0)  # one minute


def test_bars_are_selected_by_keyboard_and_touch(chromium: Chromium, site: Site) -> None:
    with browsing(chromium, site) as page:
        bars = bars_of(page, "Deliveries in the last hour")
        # one stop of the Tab key, however many bars there are
        stops = page.locator('a.step[tabindex="0"]')
        expect(stops).to_have_count(1)  # the bars of the other chart lead nowhere
        stops.first.focus()
        page.keyboard.press("Home")
        expect(bars[0]).to_be_focused()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Shift+ArrowRight")
        page.keyboard.press("Shift+ArrowRight")
        expect(page.locator("a.step.chosen")).to_have_count(3)
        expected = times_of(bars[1].get_attribute("href"))[0]
        page.keyboard.press("Enter")
        page.wait_for_url(LISTS)
        since, until = times_of(page.url)
        assert (since, (until - since).total_seconds()) == (expected, 180)
    with browsing(chromium, site, viewport=NARROW, has_touch=True) as page:
        bars = bars_of(page, "Deliveries in the last hour")
        bars[0].scroll_into_view_if_needed()
        touch = page.context.new_cdp_session(page)
        first, last = middle(bars[10]), middle(bars[40])
        ways = [first, ((first[0] + last[0]) / 2, first[1]), last]
        for kind, place in zip(("touchStart", "touchMove", "touchMove"), ways, strict=True):
            points = [{"x": place[0], "y": place[1]}]
            touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        page.wait_for_url(LISTS)
        since, until = times_of(page.url)
        assert (until - since).total_seconds() == 31 * 60


def test_setting_is_edited_beside_its_value_without_script(chromium: Chromium, site: Site) -> None:
    with browsing(
        chromium, site, f"/dashboard/endpoints/{site.scene.broken}", java_script_enabled=False
    ) as page:
        page.get_by_role("link", name="Edit limits").click()
        field = page.get_by_label("Rate limit per second")
        expect(field).to_be_focused()
        field.fill("25")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("25 per second, any number in flight")).to_be_in_viewport()
        expect(page.get_by_role("status")).to_contain_text("Limits: saved.")
        expect(page.get_by_role("status")).to_be_in_viewport()
        # without script, each bar is still a link
        page.goto("/dashboard")
        page.get_by_role("group", name="Deliveries in the last hour").locator(
            "a.step:not([tabindex])"
        ).first.click()
        expect(page).to_have_url(LISTS)
        expect(page.get_by_role("table")).to_be_visible()


def test_endpoint_page_charts_its_attempts_and_keeps_them_live(
    chromium: Chromium, site: Site
) -> None:
    with browsing(chromium, site, f"/dashboard/endpoints/{site.scene.broken}") as page:
        page.get_by_role("link", name="1 hour").click()
        expect(page.get_by_text("5xx 3")).to_be_visible()
        live = page.locator("[data-live]")
        expect(live).to_have_attribute("data-live", re.compile(r"\?window=1h$"))
        bars = bars_of(page, "Attempts by result in the last hour")
        link = next(
            bar for bar in bars if "1 attempt: 1 5xx" in str(bar.locator("title").text_content())
        )
        link.click()
        expect(page).to_have_url(re.compile(f"endpoint_id={site.scene.broken}"))

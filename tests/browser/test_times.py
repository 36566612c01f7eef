"""Times in the reader's zone, and the replay of a time range, in a real browser."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import httpx2
import pytest
from playwright.sync_api import Page, expect

from hookfast.clock import rfc3339
from tests.browser.arrivals import add_deliveries
from tests.browser.browsing import browsing
from tests.browser.chromium import Chromium
from tests.browser.conftest import Site

# `tests/integration/dashboard/test_time_ranges.py` tests the pages without a browser
pytestmark = pytest.mark.slow

BERLIN = ZoneInfo("Europe/Berlin")


def test_an_hour_of_yesterday_is_replayed_in_under_a_minute(chromium: Chromium, site: Site) -> None:
    yesterday = datetime.now(BERLIN).date() - timedelta(days=1)
    since, until = (
        datetime(yesterday.year, yesterday.month, yesterday.day, hour, tzinfo=BERLIN)
        for hour in (14, 15)
    )
    second = timedelta(seconds=1)
    inside = (since.astimezone(UTC), (since + timedelta(minutes=20)).astimezone(UTC))
    add_deliveries(site, (since - second).astimezone(UTC), *inside, until.astimezone(UTC))
    add_deliveries(site, (until - second).astimezone(UTC), status="dead")
    with browsing(chromium, site, timezone_id="Europe/Berlin") as page:
        began = time.monotonic()
        page.get_by_role("table", name="Endpoints that need attention").get_by_role(
            "link", name="Warehouse"
        ).click()
        page.get_by_text("More", exact=True).click()
        page.get_by_role("link", name="Replay…").click()
        page.get_by_role("link", name="Yesterday").click()
        expect(page.get_by_text(f"from {yesterday} 00:00").first).to_be_visible()
        page.get_by_label("From").fill(f"{yesterday}T14:00")
        page.get_by_label("To (not included)").fill(f"{yesterday}T15:00")
        page.get_by_role("button", name="Count").click()
        expect(page.get_by_role("heading", name="3 deliveries")).to_be_visible()
        words = f"emitted from {yesterday} 14:00 {since:%Z} to before {yesterday} 15:00 {until:%Z}"
        expect(page.get_by_text(f"The deliveries of events that were {words}")).to_be_visible()
        page.get_by_role("button", name="Replay 3").click()
        expect(page.get_by_role("status")).to_contain_text("3 deliveries are being resent.")
        expect(page.get_by_role("progressbar")).to_be_visible()
        assert time.monotonic() - began < 60
        job_id = page.url.rpartition("/")[2]
    headers = {"Authorization": f"Bearer {site.key}"}
    with httpx2.Client(base_url=f"{site.origin}/v1", headers=headers) as client:
        chosen = client.get(f"/jobs/{job_id}").json()["filter"]
    assert chosen["endpoint_id"] == site.scene.broken
    ends = [datetime.fromisoformat(chosen[name]) for name in ("since", "until")]
    assert ends == [since, until]


def zone_of(page: Page) -> str | None:
    found = {each["name"]: each["value"] for each in page.context.cookies()}
    return found.get("hookfast-zone")


def test_times_are_in_the_zone_of_the_browser(chromium: Chromium, site: Site) -> None:
    moment = datetime.now(UTC).replace(microsecond=0)
    in_utc = f"{moment:%Y-%m-%d %H:%M:%S} UTC"
    in_berlin = f"{moment.astimezone(BERLIN):%Y-%m-%d %H:%M:%S %Z}"
    recent = f"/dashboard/deliveries?since={rfc3339(moment - timedelta(minutes=5))}"
    with browsing(chromium, site, timezone_id="Europe/Berlin") as page:
        assert zone_of(page) == "Europe/Berlin"
        expect(page.get_by_role("contentinfo")).to_contain_text("times are in Europe/Berlin")
        page.goto(recent)
        expect(page.get_by_role("button", name="Live")).to_be_visible()
        [arrived] = add_deliveries(site, moment)
        shown = page.locator(f"#row-{arrived} time")  # rendered by the live part
        expect(shown).to_have_text(in_berlin)
        expect(shown).to_have_attribute("title", in_utc)
        # a page that came in another zone, as after a journey, is loaded again
        page.context.add_cookies(
            [{"name": "hookfast-zone", "value": "Asia/Tokyo", "url": site.origin}]
        )
        page.goto(f"/dashboard/events/{site.scene.event_id}")
        expect(page.get_by_role("contentinfo")).to_contain_text("times are in Europe/Berlin")
        expect(page.locator(".facts time")).to_have_text(re.compile(r"^[-\d]+ [:\d]+ CES?T$"))
        assert zone_of(page) == "Europe/Berlin"
        # but not the answer to a form: a secret is shown only once
        page.goto("/dashboard/api-keys")
        page.context.clear_cookies(name="hookfast-zone")
        page.get_by_label("Name", exact=True).fill("for an hour")
        page.get_by_label("Expires").fill(f"{moment + timedelta(days=2):%Y-%m-%d}")
        page.get_by_role("button", name="Create").click()
        expect(page.get_by_role("group", name="The key")).to_contain_text("hf_")
        assert zone_of(page) == "Europe/Berlin"


def test_ranges_work_without_script_in_utc(chromium: Chromium, site: Site) -> None:
    moment = datetime.now(UTC).replace(second=30, microsecond=0) - timedelta(hours=3)
    [inside, later] = add_deliveries(site, moment, moment + timedelta(minutes=1))
    options = {"java_script_enabled": False, "timezone_id": "Europe/Berlin"}
    since, until = (f"{each:%Y-%m-%dT%H:%M}" for each in (moment, moment + timedelta(minutes=1)))
    with browsing(chromium, site, "/dashboard/deliveries", **options) as page:
        expect(page.get_by_role("contentinfo")).to_contain_text("times are UTC")
        page.get_by_role("link", name="24 hours").click()
        page.get_by_label("From").fill(since)
        page.get_by_label("To (not included)").fill(until)
        page.get_by_role("button", name="Filter").click()
        expect(page.locator(f"#row-{inside}")).to_contain_text(f"{moment:%Y-%m-%d %H:%M}:30 UTC")
        expect(page.locator(f"#row-{later}")).to_have_count(0)
        page.get_by_label("Status").select_option("dead")
        page.get_by_role("button", name="Filter").click()
        expect(page.get_by_text("No delivery matches.")).to_be_visible()
        expect(page.get_by_label("From")).to_have_value(since)

"""The parts of pages that follow the database while they are open, in a real browser."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import httpx2
from playwright.sync_api import expect

from tests.browser.arrivals import add_deliveries
from tests.browser.browsing import browsing, sign_in
from tests.browser.chromium import Chromium
from tests.browser.conftest import Site
from tests.support.waiting import PATIENCE


def test_new_deliveries_appear_in_the_open_list(chromium: Chromium, site: Site) -> None:
    with browsing(chromium, site, f"/dashboard/deliveries?endpoint_id={site.scene.broken}") as page:
        rows = page.get_by_role("row")
        before = rows.count()
        tick = page.get_by_label("Select dlv_").first
        tick.check()
        [arrived] = add_deliveries(site, datetime.now(UTC), status="retrying")
        expect(page.locator(f"#row-{arrived}")).to_be_visible()
        assert rows.count() == before + 1
        # the same row stays ticked
        expect(page.get_by_role("checkbox", checked=True)).to_have_count(1)
        page.get_by_role("button", name="Live").click()
        expect(page.get_by_role("button", name="Live")).to_have_attribute("aria-pressed", "false")
        [later] = add_deliveries(site, datetime.now(UTC), status="retrying")
        page.wait_for_timeout(2_500)
        expect(page.locator(f"#row-{later}")).to_have_count(0)


def test_live_part_shows_when_it_is_disconnected(chromium: Chromium, site: Site) -> None:
    with browsing(chromium, site) as page:
        page.route("**/dashboard/live/**", lambda route: route.abort())
        page.goto("/dashboard/deliveries")
        away = page.get_by_role("button", name="Not connected")
        expect(away).to_be_visible()
        page.unroute("**/dashboard/live/**")
        expect(page.get_by_role("button", name="Live")).to_be_visible()
        expect(away).to_have_count(0)


def test_live_part_asks_to_sign_in_after_its_key_is_revoked(chromium: Chromium, site: Site) -> None:
    headers = {"Authorization": f"Bearer {site.key}"}
    with httpx2.Client(base_url=f"{site.origin}/v1", headers=headers) as client:
        created = client.post("/api-keys", json={"name": "for a while", "scope": "operator"}).json()
        with browsing(chromium, replace(site, key=created["key"]), "/dashboard/deliveries") as page:
            expect(page.get_by_role("button", name="Live")).to_be_visible()
            client.delete(f"/api-keys/{created['id']}")
            page.get_by_role("button", name="Sign in again").click(timeout=PATIENCE * 1_000)
            page.wait_for_url("**/dashboard/sign-in?next=/dashboard/deliveries")
            sign_in(page, site.key)
            page.wait_for_url("**/dashboard/deliveries")

"""The main tasks of the dashboard, in a real browser."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

import httpx2
from playwright.sync_api import expect

from tests.browser.browsing import ACCESSIBILITY, browsing, sign_in
from tests.browser.chromium import NARROW, WIDE, Chromium
from tests.browser.conftest import Site
from tests.browser.scene import EVENT_TYPE, GITHUB_ID, IDEMPOTENCY_KEY
from tests.support.serving import serving


def test_failing_endpoint_is_found_on_the_overview_and_recovered(
    chromium: Chromium, site: Site
) -> None:
    stop_jobs(site)
    with browsing(chromium, site) as page:
        expect(page.get_by_text("1 of 3 endpoints is down, 1 is disabled; ")).to_have_class(
            "verdict bad"
        )
        page.get_by_role("link", name="1 circuit open").first.click()
        listed = page.get_by_role("table", name="Endpoints").get_by_role("rowheader")
        expect(listed).to_have_text([re.compile("Warehouse")])
        badge = page.get_by_text("circuit open", exact=True).last
        expect(badge).to_have_class("badge bad")
        expect(badge).to_have_attribute("title", re.compile("Deliveries are held"))
        page.go_back()
        page.get_by_role("table", name="Endpoints that need attention").get_by_role(
            "link", name="Warehouse"
        ).click()
        expect(page.get_by_role("heading", name="Outage", exact=True)).to_be_visible()
        expect(page.get_by_text(re.compile(r"in 2\d min"))).to_be_visible()  # a countdown
        page.get_by_role("link", name="Recover…").click()
        expect(page.get_by_role("heading", name="6 deliveries")).to_be_visible()
        page.get_by_role("button", name="Recover 6").click()
        expect(page.get_by_role("status")).to_contain_text("6 deliveries are being resent")
        expect(page.get_by_role("progressbar")).to_be_visible()


def test_tenant_in_trouble_is_found_on_the_overview_and_opened(
    chromium: Chromium, site: Site
) -> None:
    with browsing(chromium, site) as page:
        table = page.get_by_role("table", name="Tenants that need attention")
        expect(table.get_by_role("rowheader")).to_have_text(["Corner Shop"])
        expect(table.get_by_role("row").nth(1)).to_contain_text("1 circuit open")
        table.get_by_role("link", name="Corner Shop").click()
        page.wait_for_url(f"**/dashboard/tenants/{site.scene.tenant_id}")
        expect(page.get_by_role("heading", name="Corner Shop")).to_be_visible()
        expect(page.get_by_text("1 of 3 down")).to_be_visible()
        page.get_by_role("link", name="1 circuit open").click()
        expect(page.get_by_role("rowheader")).to_contain_text(["Warehouse"])
        # each row says whose it is, and leads back
        page.get_by_role("rowheader").get_by_role("link", name="Corner Shop").click()
        page.get_by_role("navigation", name="Lists").get_by_role("link", name="Audit log").click()
        expect(page.get_by_role("combobox", name="Tenant")).to_have_value("Corner Shop")


def test_ids_keys_urls_and_types_are_found_from_the_headers_box(
    chromium: Chromium, site: Site
) -> None:
    scene = site.scene
    found = (
        # pasted, and where it leads
        (f' "{scene.failed}"', f"/dashboard/deliveries/{scene.failed}"),
        (f"level=info endpoint_id={scene.broken}", f"/dashboard/endpoints/{scene.broken}"),
        (f"dlv_…{scene.failed[-8:]}", f"/dashboard/deliveries/{scene.failed}"),
        (IDEMPOTENCY_KEY, f"/dashboard/events/{scene.event_id}"),
        (GITHUB_ID, f"/dashboard/inbox/{scene.inbox_id}"),
        ("http://127.0.0.1:4/broken/?x=1", f"/dashboard/endpoints/{scene.broken}"),
        (EVENT_TYPE, f"/dashboard/event-types/{EVENT_TYPE}"),
        ("4/broken", f"/dashboard/endpoints/{scene.broken}"),
        ("invoice.pa", f"/dashboard/event-types/{EVENT_TYPE}"),
        ("corner shop", f"/dashboard/tenants/{scene.tenant_id}"),
    )
    with browsing(chromium, site) as page:
        for text, path in found:
            page.keyboard.press("/")
            expect(page.get_by_label("Search everything")).to_be_focused()
            page.keyboard.insert_text(text)
            page.keyboard.press("Enter")
            page.wait_for_url(f"{site.origin}{path}")
        page.keyboard.press("/")
        page.keyboard.type("http://127")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Endpoints")).to_be_visible()
        expect(page.get_by_role("main").get_by_role("listitem")).to_have_count(3)
        page.get_by_role("link", name="Old shop").click()
        expect(page.get_by_role("heading", name="Old shop")).to_be_visible()
        page.get_by_label("Search everything").fill("4bf92f3577b34da6a3ce929d0e0e4736")
        page.keyboard.press("Enter")
        expect(page.get_by_role("main").get_by_role("status")).to_contain_text("a trace id")


def test_endpoint_is_picked_by_a_part_of_its_name(chromium: Chromium, site: Site) -> None:
    with more_endpoints(site), browsing(chromium, site, "/dashboard/deliveries") as page:
        field = page.get_by_label("Endpoint")
        options = page.locator("#choices-endpoint_id option")
        expect(options).to_have_count(50)
        expect(page.locator("#choices-endpoint_id option[value=Warehouse]")).to_have_count(0)
        field.press_sequentially("wareh")
        expect(options).to_have_count(1)  # asked for: it is not one of the newest
        expect(options).to_have_attribute("value", "Warehouse")
        field.press("Enter")
        page.wait_for_url(re.compile("endpoint_id=wareh"))
        expect(page.get_by_label("Endpoint")).to_have_value("Warehouse")
        expect(page.get_by_role("table").get_by_text("Ledger")).to_have_count(0)
        page.get_by_label("Endpoint").fill("e")
        page.get_by_label("Endpoint").press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("More than 5 match")
        page.get_by_role("alert").get_by_role("link").first.click()
        expect(page.get_by_label("Endpoint")).to_have_value(re.compile("."))
        expect(page.get_by_role("alert")).to_have_count(0)


@contextmanager
def more_endpoints(site: Site) -> Iterator[None]:
    """Create more endpoints than a field suggests, and delete them at the end."""
    headers = {"Authorization": f"Bearer {site.key}"}
    form = {
        "tenant_id": site.scene.tenant_id,
        "url": "http://127.0.0.1:4/more",
        "verification": "none",
    }
    with httpx2.Client(base_url=f"{site.origin}/v1", headers=headers) as client:
        made = [
            client.post("/endpoints", json=form | {"description": f"Branch {n}"}).json()["id"]
            for n in range(50)
        ]
        try:
            yield
        finally:
            delete_endpoints(site, made)


def stop_jobs(site: Site) -> None:
    """Cancel the jobs of other tests: nobody can select what a job is about to resend."""
    headers = {"Authorization": f"Bearer {site.key}"}
    with httpx2.Client(base_url=f"{site.origin}/v1", headers=headers) as client:
        for job in client.get("/jobs", params={"status": "pending"}).json()["data"]:
            assert client.post(f"/jobs/{job['id']}/cancel").status_code == 202


def test_selected_deliveries_are_counted_then_resent(chromium: Chromium, site: Site) -> None:
    stop_jobs(site)
    with browsing(chromium, site, "/dashboard/deliveries") as page:
        page.get_by_label("Status").select_option("dead")
        page.get_by_role("button", name="Filter").click()
        page.get_by_label("Select all on this page").check()
        page.get_by_role("button", name="Apply to selected…").click()
        expect(page.get_by_role("heading", name="Resend 8 deliveries?")).to_be_visible()
        page.get_by_role("link", name="Go back").click()
        expect(page).to_have_url(re.compile(r"status=dead"))
        page.get_by_role("button", name="Apply to all matching…").click()
        page.get_by_role("button", name="Resend 8").click()
        expect(page.get_by_role("status")).to_contain_text("The job acts on 8 deliveries.")
        page.go_back()
        page.get_by_role("button", name="Resend 8").click()
        expect(page.get_by_role("status")).to_contain_text("This was already done")


def test_content_filter_is_checked_and_saved_without_script(chromium: Chromium, site: Site) -> None:
    with browsing(
        chromium, site, f"/dashboard/endpoints/{site.scene.broken}", java_script_enabled=False
    ) as page:
        subscriptions = page.get_by_role("region", name="Subscriptions")
        expect(subscriptions.get_by_text('{"amount":{"$gte":100000}')).to_be_visible()
        page.get_by_text("Add a subscription").click()
        page.get_by_label("Events", exact=True).fill(EVENT_TYPE)
        page.locator('textarea[name="filter"]').fill('{"invoice_id": {"$startWith": "in_4"}}')
        page.get_by_role("button", name="Check").click()
        expect(subscriptions.get_by_role("alert")).to_contain_text("did you mean `$startsWith`?")
        page.locator('textarea[name="filter"]').fill('{"invoice_id": {"$startsWith": "in_4"}}')
        page.get_by_role("button", name="Check").click()
        checked = page.get_by_text(re.compile(r"event of these types (matches|does not match)\."))
        expect(checked).to_be_visible()
        page.get_by_role("button", name="Subscribe").click()
        expect(page.get_by_role("status").first).to_contain_text("Subscribed to")
        expect(subscriptions.get_by_text('{"invoice_id":{"$startsWith":"in_4"}}')).to_be_visible()
        subscriptions.get_by_role("link", name=f"Edit {EVENT_TYPE}").first.click()
        expect(checked).to_be_visible()
        page.locator('textarea[name="filter"]').fill("")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("status").first).to_contain_text("The subscription is saved.")
        expect(subscriptions.get_by_text('{"invoice_id"')).to_have_count(0)


def test_inbox_entry_is_retried_after_its_schema_is_fixed(chromium: Chromium, site: Site) -> None:
    with browsing(chromium, site, "/dashboard/inbox?status=failed") as page:
        page.get_by_role("table").get_by_role("link", name="inb_").first.click()
        page.get_by_role("button", name="Retry").click()
        expect(page.get_by_role("alert")).to_contain_text("size")
        page.get_by_role("link", name="schema").click()
        page.get_by_role("link", name="Edit").click()
        page.get_by_label("JSON Schema of its data").fill("")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("status")).to_contain_text("is registered")
        page.goto("/dashboard/inbox?status=failed")
        page.get_by_role("table").get_by_role("link", name="inb_").first.click()
        page.get_by_role("button", name="Retry").click()
        expect(page.get_by_role("status")).to_contain_text("The event was created.")
        page.get_by_role("link", name="evt_").click()
        expect(page.get_by_role("group", name="The event")).to_contain_text("refs/heads/topic")


def test_mapping_is_previewed_and_its_error_shown_where_it_is(
    chromium: Chromium, site: Site
) -> None:
    with browsing(chromium, site) as page:
        edit = f"/dashboard/endpoints/{site.scene.fine}"
        page.goto(edit)
        page.get_by_role("link", name="Edit order").first.click()
        page.get_by_role("combobox", name="Payload").select_option("mapped")
        mapping = page.get_by_role("textbox", name="Mapping")
        mapping.fill("{text: join(' ', ['It is', type])")
        page.get_by_label("Example event").select_option(EVENT_TYPE)
        page.get_by_role("button", name="Preview the mapping").click()
        expect(page.get_by_text("there is an error at character")).to_be_visible()
        expect(mapping).to_have_attribute("aria-invalid", "true")
        mapping.fill("{text: join(' ', ['It is', type])}")
        page.get_by_role("button", name="Preview the mapping").click()
        expect(page.get_by_label("The mapped body")).to_have_text(
            f'{{"text":"It is {EVENT_TYPE}"}}'
        )


def test_portal_link_shows_one_endpoint_without_a_key(chromium: Chromium, site: Site) -> None:
    with browsing(chromium, site, "/dashboard/tenants") as page:
        page.get_by_role("button", name="Switch to Corner Shop").click()
        expect(page.get_by_role("button", name="Show all tenants")).to_be_visible()
        page.goto("/dashboard/portal-links")
        page.set_viewport_size(NARROW)
        assert page.evaluate(ACCESSIBILITY) == []
        page.set_viewport_size(WIDE)
        page.get_by_label("Shows").select_option(label="only Warehouse")
        page.get_by_role("button", name="Create").click()
        link = page.get_by_role("group", name="The link").text_content()
        page.goto("/dashboard/tenants")
        page.get_by_role("button", name="Show all tenants").click()
    assert link is not None
    with chromium.page() as page:
        page.goto(link[link.index("/portal") :])
        expect(page.get_by_role("heading", name="Warehouse")).to_be_visible()
        assert "sig=" not in page.url
        menu = page.get_by_role("navigation", name="Main").get_by_role("link")
        expect(menu).to_have_text(["Endpoint", "Activity", "Event catalogue", "Guide"])
        menu.get_by_text("Activity").click()
        expect(page.get_by_role("table")).to_be_visible()
        expect(page.get_by_role("table").get_by_text("Ledger")).to_have_count(0)


def test_delivery_page_shows_the_timeline_and_copies_the_curl_script(
    chromium: Chromium, site: Site
) -> None:
    with browsing(
        chromium,
        site,
        f"/dashboard/deliveries/{site.scene.failed}",
        permissions=("clipboard-read", "clipboard-write"),
    ) as page:
        expect(page.get_by_text("Attempt 3")).to_be_visible()
        expect(page.locator("[data-countdown]").first).to_contain_text(re.compile(r"in 1\d min"))
        page.get_by_text("Request and response").first.click()
        expect(page.get_by_text("webhook-signature: ***").first).to_be_visible()
        expect(page.get_by_text("Server: example").first).to_be_visible()
        expect(page.get_by_text("<h1>Down for maintenance</h1>").first).to_be_visible()
        page.get_by_text("Send it yourself with curl").click()
        command = page.get_by_role("group", name="The command")
        command.locator("xpath=..").get_by_role("button", name="Copy").click()
        page.wait_for_function("navigator.clipboard.readText()")
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied == command.text_content()
        assert "SECRET=whsec_…" in copied
        assert "openssl" in copied


def test_second_click_and_reload_have_no_effect(chromium: Chromium, site: Site) -> None:
    for script, name in ((True, "Clicked twice"), (False, "Loaded twice")):
        with (
            browsing(
                chromium, site, "/dashboard/endpoints/new", java_script_enabled=script
            ) as page,
            slow_receiver() as url,
        ):
            page.get_by_label("Tenant").fill("corner shop")
            page.get_by_label("URL", exact=True).fill(url)
            page.get_by_label("Name", exact=True).fill(name)
            page.get_by_label("Events").fill(EVENT_TYPE)
            make = page.get_by_role("button", name="Create")
            make.dblclick() if script else make.click()
            # the script blocked the second click, whose answer would not show the secret
            expect(page.get_by_role("group", name="The secret")).to_contain_text("whsec_")
            page.reload()
            expect(page.get_by_role("status").first).to_contain_text("This was already done")
            expect(page.get_by_role("heading", name=name)).to_be_visible()
            page.goto("/dashboard/endpoints")
            made = page.get_by_role("link", name=name)
            expect(made).to_have_count(1)
            delete_endpoints(site, [str(made.get_attribute("href")).rpartition("/")[2]])


def delete_endpoints(site: Site, ids: list[str]) -> None:
    """Delete what a test created: other tests count the endpoints."""
    headers = {"Authorization": f"Bearer {site.key}"}
    with httpx2.Client(base_url=f"{site.origin}/v1", headers=headers) as client:
        for endpoint_id in ids:
            client.delete(f"/endpoints/{endpoint_id}").raise_for_status()


def test_pages_work_without_script(chromium: Chromium, site: Site) -> None:
    with browsing(
        chromium, site, f"/dashboard/endpoints/{site.scene.fine}", java_script_enabled=False
    ) as page:
        page.get_by_role("button", name="Pause").click()
        expect(page.get_by_role("status")).to_contain_text("The endpoint is paused")
        page.get_by_role("button", name="Resume").click()
        expect(page.get_by_role("status")).to_contain_text("The endpoint is resumed")
        page.get_by_role("link", name="Settings", exact=True).click()
        page.get_by_label("Name", exact=True).fill("The ledger")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("heading", name="The ledger")).to_be_visible()
        page.get_by_text("Add a subscription").click()
        page.get_by_label("Events", exact=True).fill("order.*, order.invoices.paid")
        page.get_by_role("button", name="Subscribe").click()
        expect(page.get_by_role("status").first).to_contain_text(
            "No registered event type matches “order.*” yet. Did you mean “order.**”?"
        )
        row = page.get_by_role("row", name="order.invoices.paid")
        expect(row).to_contain_text("Did you mean “order.invoice.paid”?")
        page.get_by_role("combobox", name="Event type").select_option("order.invoice.paid")
        page.get_by_role("button", name="Load sample").click()
        page.get_by_label("Data of order.invoice.paid").fill('{"amount": 12}')
        page.get_by_role("button", name="Send a test").click()
        expect(page.get_by_role("status").first).to_contain_text("The test was sent.")
        expect(page.locator("main")).to_contain_text("refused")  # nothing listens there
        sent = page.get_by_role("group", name="The request's body")
        expect(sent).to_contain_text('"amount": 12')
        expect(page.get_by_label("Data of order.invoice.paid")).to_have_value(
            '{\n  "amount": 12\n}'
        )
        page.reload()
        page.get_by_role("link", name="The ledger").first.click()
        expect(page.get_by_role("table", name="Last tests")).to_contain_text("no access token")
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        sign_in(page, site.key)
        page.wait_for_url("**/dashboard")
        expect(page.get_by_role("button", name="Sign out")).to_be_visible()


@contextmanager
def slow_receiver() -> Iterator[str]:
    """Run a receiver that takes half a second to verify, and yield its URL."""

    class Receiver(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            time.sleep(0.5)
            self.send_response(204)
            self.send_header("X-Hook-Challenge", self.headers["X-Hook-Challenge"])
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with serving(Receiver) as origin:
        yield f"{origin}/hook"

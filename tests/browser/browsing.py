"""A page of a signed-in browser, for the browser tests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
from playwright.sync_api import Browser, Page, ViewportSize

from tests.browser.conftest import Site

WIDE: ViewportSize = {"width": 1440, "height": 900}
NARROW: ViewportSize = {"width": 390, "height": 844}
ACCESSIBILITY = (Path(__file__).parent / "accessibility.js").read_text()
"""An expression whose value is what fails the accessibility checks on the open page."""

_SETTLE = """async () => {
  const frame = () => new Promise(requestAnimationFrame);
  await frame();
  await frame();
  for (let moving = true; moving; await frame()) {
    const finite = document.getAnimations().filter(
      (each) => each.playState === "running" && each.effect.getComputedTiming().endTime !== Infinity
    );
    await Promise.allSettled(finite.map((each) => each.finished));
    moving = finite.length > 0;
  }
}"""


@contextmanager
def browsing(chromium: Browser, site: Site, **options: Any) -> Iterator[Page]:
    """A page of a signed-in browser. Script errors and policy violations fail the test."""
    complaints: list[str] = []
    context = chromium.new_context(base_url=site.origin, **{"viewport": WIDE} | options)
    page = context.new_page()
    page.set_default_timeout(20_000)
    page.on("console", lambda said: complaints.append(said.text) if _is_ours(said.text) else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    try:
        page.goto("/dashboard/sign-in")
        page.get_by_label("API key").fill(site.key)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url("**/dashboard")
        yield page
    finally:
        context.close()
    assert complaints == []


def settle(page: Page) -> None:
    """Wait until the page has drawn what was changed, and every transition is at its end."""
    page.evaluate(_SETTLE)


def portal_link(site: Site, **form: Any) -> str:
    """Create a portal link of the scene's tenant."""
    headers = {"Authorization": f"Bearer {site.key}"}
    path = f"{site.origin}/v1/tenants/{site.scene.tenant_id}/portal-links"
    made = httpx2.post(path, json={"scope": "tenant"} | form, headers=headers, trust_env=False)
    url = str(made.raise_for_status().json()["url"])
    return site.origin + url[url.index("/portal") :]


def _is_ours(said: str) -> bool:
    """Return whether a console message is about our code, not about an intended error status."""
    return not re.search("the server responded with a status of (404|422)|ERR_FAILED", said)

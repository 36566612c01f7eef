"""A page of a signed-in browser, for the browser tests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
from playwright.sync_api import ConsoleMessage, Error, Page, expect

from tests.browser.chromium import Chromium
from tests.browser.conftest import Site

ACCESSIBILITY = (Path(__file__).parent / "accessibility.js").read_text()
"""An expression whose value is what fails the accessibility checks on the open page."""

_INTENDED = re.compile("the server responded with a status of (404|422)|ERR_FAILED")
"""What the console says about an error status that a test wants."""

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
def browsing(
    chromium: Chromium, site: Site, path: str = "/dashboard", **options: Any
) -> Iterator[Page]:
    """Open a path in a signed-in browser. Script errors and policy violations fail the test."""
    with chromium.page(**options) as page, no_complaints(page):
        _begin_session(page, site)
        page.goto(path)
        yield page


@contextmanager
def no_complaints(page: Page, *, warnings: bool = True) -> Iterator[None]:
    """Check that the page reports no script errors, policy violations and warnings meanwhile."""
    complaints: list[str] = []

    def hear(said: ConsoleMessage) -> None:
        if (warnings or said.type == "error") and not _INTENDED.search(said.text):
            complaints.append(said.text)

    def fail(error: Error) -> None:
        complaints.append(str(error))

    page.on("console", hear)
    page.on("pageerror", fail)
    yield
    page.remove_listener("console", hear)
    page.remove_listener("pageerror", fail)
    assert complaints == [], complaints  # pytest shows no values in this module


def sign_in(page: Page, key: str) -> None:
    """Sign in with the form of the open page."""
    field = page.get_by_label("API key")
    expect(field).to_be_focused()  # if a test is faster, Chromium complains
    field.fill(key)
    page.get_by_role("button", name="Sign in").click()


def _begin_session(page: Page, site: Site) -> None:
    """Sign in without the form: in the browser, that takes three page loads."""
    form = page.request.get("/dashboard/sign-in").text()
    csrf = re.findall(r'name="csrf" value="(\w+)"', form)[0]
    fields = {"csrf": csrf, "key": site.key}
    answer = page.request.post("/dashboard/sign-in", form=fields, max_redirects=0)
    assert answer.status == 303


def settle(page: Page) -> None:
    """Wait until the page has drawn what was changed, and every transition is at its end."""
    page.evaluate(_SETTLE)


def portal_link(site: Site, *, tenant_id: str | None = None, **form: Any) -> str:
    """Create a portal link of a tenant, by default the scene's."""
    path = f"/tenants/{tenant_id or site.scene.tenant_id}/portal-links"
    url = str(posted(site, path, {"scope": "tenant"} | form)["url"])
    return site.origin + url[url.index("/portal") :]


def posted(site: Site, path: str, form: dict[str, Any]) -> Any:
    """Send a form to the API as the operator, and return the answer."""
    headers = {"Authorization": f"Bearer {site.key}"}
    made = httpx2.post(f"{site.origin}/v1{path}", json=form, headers=headers, trust_env=False)
    return made.raise_for_status().json()

"""A running Chromium whose pages are used by one test after another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from playwright.sync_api import Browser, Page, ViewportSize

from api.site.static_files import ADDRESSES
from api.site.zone import COOKIE
from tests.support.waiting import PATIENCE

WIDE: ViewportSize = {"width": 1440, "height": 900}
NARROW: ViewportSize = {"width": 390, "height": 844}
Theme = Literal["light", "dark"]

_ZONE = "UTC"
_BLANK = ADDRESSES["site.css"]
"""A page without a script. `about:blank` would need a new process."""


class Chromium:
    """A browser that shows one site.

    A new context takes as much CPU as seven page loads, because its renderer is a new process. So
    tests with the same options use the same page, one after another; it keeps no cookies between
    them.
    """

    def __init__(self, browser: Browser, origin: str) -> None:
        self._browser = browser
        self._origin = origin
        self._free: dict[frozenset[tuple[str, object]], Page] = {}

    @contextmanager
    def page(
        self,
        *,
        viewport: ViewportSize = WIDE,
        color_scheme: Theme = "light",
        permissions: tuple[str, ...] = (),
        **options: Any,
    ) -> Iterator[Page]:
        """Yield a page of a browser that is not signed in. The other options are those of
        Playwright's contexts."""
        options = {"timezone_id": _ZONE} | options
        key = frozenset(options.items())
        page = self._free.pop(key, None) or self._new_page(options)
        page.set_viewport_size(viewport)
        page.emulate_media(color_scheme=color_scheme)
        page.context.grant_permissions(permissions)
        if options["timezone_id"] == _ZONE and options.get("java_script_enabled", True):
            # the script sets it, too, but then it loads the first page again
            page.context.add_cookies([{"name": COOKIE, "value": _ZONE, "url": self._origin}])
        try:
            yield page
        except BaseException:
            page.context.close()  # nobody knows its state
            raise
        page.unroute_all()
        page.goto(_BLANK)
        page.context.clear_permissions()
        page.context.clear_cookies()
        self._free[key] = page

    def _new_page(self, options: dict[str, Any]) -> Page:
        page = self._browser.new_context(base_url=self._origin, **options).new_page()
        page.set_default_timeout(PATIENCE * 1_000)
        return page

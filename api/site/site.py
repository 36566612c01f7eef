"""A site: a set of pages under one path, with sessions of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from fastapi import Response

from api.site.navigation import Section

V = TypeVar("V")
"""The view of a page, `api.site.page.View`, which has its site."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site(Generic[V]):
    """The dashboard (`api.dashboard.site`) or the portal (`api.portal.site`).

    - `home`: the path of its pages.
    - `without_session`: the page to which a visitor without a session is redirected.
    - `cookie`: the name of the cookie with the session's token.
    - `by_link`: whether its sessions are begun with portal links, or with API keys.
    - `templates`: the folder of its own templates. `layout.html` is the frame of every page.
    - `prepare`: called before every page that needs a session; may answer in the page's place.
    - `sections`: returns the menu.
    - `policy`: returns the header Content-Security-Policy.
    - `values`: returns what every template gets.
    """

    home: str
    without_session: str
    cookie: str
    by_link: bool
    templates: Path
    prepare: Callable[[V], Awaitable[Response | None]]
    sections: Callable[[V], list[Section]]
    policy: Callable[[V], str]
    values: Callable[[V], dict[str, Any]] = lambda _: {}
    beside: tuple[str, ...] = ()
    """Paths of pages of the site that are not below `home`."""

    def path(self, given: str | None) -> str:
        """Return `given` if it is the path of one of these pages, else the first page's. A link
        must not make us redirect to another site: `//host` and `/\\host` are other hosts."""
        if given is None or not given.isascii() or not given.isprintable() or "\\" in given:
            return self.home
        is_own = any(
            given == path or given.startswith((f"{path}/", f"{path}?"))
            for path in (self.home, *self.beside)
        )
        return given if is_own else self.home

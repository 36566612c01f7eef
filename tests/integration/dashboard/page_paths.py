"""The pages and forms of the application, so that a new one is among them at once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from api.dashboard.application import routers
from api.dashboard.site.page_route import OpenPageRoute, PageRoute
from tests.integration.api.shared.one_of_everything import EVENT_TYPE

UNKNOWN = "0" * 32
"""What follows the prefix of an id that nobody has."""
EVERYBODYS = {"/dashboard/sign-out", "/dashboard/settings/theme"}
"""Forms of those too who may only look."""
SHARED = {"name": EVENT_TYPE}
"""What pages are about that belongs to nobody: the catalogue is everybody's to read."""


@dataclass(frozen=True, slots=True)
class PagePath:
    """One page or one form's target."""

    method: str
    path: str

    @property
    def parameters(self) -> list[str]:
        return [name for name in re.findall(r"\{(\w+)\}", self.path) if name not in SHARED]

    def at(self, ids: dict[str, str]) -> str:
        """Its address."""
        return self.path.format(**SHARED | ids)

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def _pages(kind: type) -> list[PagePath]:
    return [
        PagePath(method, route.path)
        for router in routers()
        for route in router.routes
        if isinstance(route, kind)
        for method in route.methods - {"HEAD"}
    ]


PAGES = _pages(PageRoute)
LIVE = [each for each in PAGES if each.path.startswith("/dashboard/live/")]
SHOWN = [each for each in PAGES if each.method == "GET" and each not in LIVE]
FORMS = [each for each in PAGES if each.method == "POST"]
OPEN_FORMS = [each for each in _pages(OpenPageRoute) if each.method == "POST"]
"""Those that need no session."""


def fields_for(ids: dict[str, str]) -> dict[str, Any]:
    """What forms need to be understood: then only whose it is stands in their way."""
    return {
        "action": "resend",
        "to": "selected",
        "ids": ids.get("delivery_id", ""),
        "tenant_id": ids["tenant_id"],
        "since": "2026-01-01T00:00:00Z",
        "overlap": "0",
        "type": "order.invoice.paid",
        "events": "order.**",
        "name": "taken over",
        "description": "taken over",
        "url": "http://127.0.0.1:9/taken-over",
        "verification": "none",
        "signatures": "hook",
        "plan": "hourly",
    }

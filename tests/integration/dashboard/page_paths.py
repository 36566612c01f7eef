"""The pages and forms of the application, listed from its routes so that new ones are included."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import trustme
from fastapi import APIRouter

from api.dashboard.application import routers
from api.site.page_route import OpenPageRoute, PageRoute
from tests.integration.api.shared.one_of_everything import EVENT_TYPE

UNKNOWN = "0" * 32
"""The digits of an id that does not exist."""
CERTIFICATE = trustme.CA().cert_pem.bytes().decode()
EVERYBODYS = {"/dashboard/sign-out", "/dashboard/settings/theme"}
"""Forms that read-only visitors may submit too."""
SHARED = {"name": EVENT_TYPE, "group": "limits"}
"""Path parameters without an owner: everybody may read the catalogue, and an endpoint's groups of
settings are the same for all."""


@dataclass(frozen=True, slots=True)
class PagePath:
    """One page, or one target of a form."""

    method: str
    path: str

    @property
    def parameters(self) -> list[str]:
        return [name for name in re.findall(r"\{(\w+)\}", self.path) if name not in SHARED]

    def at(self, ids: dict[str, str]) -> str:
        """Return the path with these ids."""
        return self.path.format(**SHARED | ids)

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def pages_of(routers: Sequence[APIRouter], kind: type) -> list[PagePath]:
    """Return the pages of these routers whose routes are of this kind."""
    return [
        PagePath(method, route.path)
        for router in routers
        for route in router.routes
        if isinstance(route, kind)
        for method in route.methods - {"HEAD"}
    ]


PAGES = pages_of(routers(), PageRoute)
LIVE = [each for each in PAGES if each.path.startswith("/dashboard/live/")]
SHOWN = [each for each in PAGES if each.method == "GET" and each not in LIVE]
FORMS = [each for each in PAGES if each.method == "POST"]
OPEN_FORMS = [each for each in pages_of(routers(), OpenPageRoute) if each.method == "POST"]
"""Forms that need no session."""


def fields_for(ids: dict[str, str]) -> dict[str, Any]:
    """Return valid values for every form, so that only ownership can be the reason of an error."""
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
        "url": "http://127.0.0.1:4/taken-over",
        "verification": "none",
        "signatures": "hook",
        "plan": "hourly",
        "kind": "bearer",
        "token": "taken-over",
        "authorities": CERTIFICATE,
    }

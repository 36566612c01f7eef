"""The pages and forms of the portal, listed from its routes so that new ones are included."""

from __future__ import annotations

from api.portal.application import routers
from api.site.page_route import PageRoute
from tests.integration.dashboard.page_paths import pages_of

PAGES = pages_of(routers(), PageRoute)
LIVE = [each for each in PAGES if each.path.startswith("/portal/live/")]
SHOWN = [each for each in PAGES if each.method == "GET" and each not in LIVE]
FORMS = [each for each in PAGES if each.method == "POST"]
EVERYBODYS = {"/portal/sign-out", "/portal/settings/theme"}
"""Forms that read-only visitors may submit too."""
FIELDS = {
    "url": "http://127.0.0.1:4/taken-over",
    "ticked": "order.**",
    "description": "taken over",
    "verification": "none",
    "signatures": "hook",
    "plan": "hourly",
    "span": "86400",
    "overlap": "0",
    "type": "order.invoice.paid",
    "data": '{"taken": "over"}',
    "kind": "bearer",
    "token": "taken-over",
}
"""Valid values for every form, so that only ownership can be the reason of an error."""

"""The pages that a portal link to one endpoint opens: those of that endpoint, its activity, and the
event catalogue. Every other page answers 404, new pages included."""

from __future__ import annotations

import re
from typing import Final

from fastapi import Response

from api.site.page import View
from hookfast.errors import NotFound
from hookfast.storage.deliveries import deliveries, sent_tests

_ALWAYS_ALLOWED: Final = ("/sign-out", "/settings/theme")
_CATALOGUE: Final = re.compile(r"/event-types(?:/[^/]+(?:/example)?)?")
_ACTIVITY: Final = re.compile(r"/activity/(dlv_[0-9a-f]{32})(?:/\w+)?")


async def confine(view: View) -> Response | None:
    """Raise NotFound for a page outside the session's scope. Return a redirect to the endpoint's
    page from the list of endpoints, and from the activity of all endpoints to that of this one."""
    own = view.endpoint_id
    if own is None:
        return None
    home = view.site.home
    # the path that the router matches: `request.url` may spell it in another way
    path: str = view.request.scope["path"].removeprefix(home)
    if view.request.method == "GET" and path in ("", "/endpoints"):
        return view.redirect(f"{home}/endpoints/{own}")
    if path == "/activity" and "endpoint_id" not in view.request.query_params:
        return view.redirect(f"{home}/activity?endpoint_id={own}")
    if not await _is_about(own, path, view):
        raise NotFound("There is no such page, or this link does not lead to it.")
    return None


async def _is_about(own: str, path: str, view: View) -> bool:
    """Return whether a page is about this endpoint only, or about none."""
    if path in _ALWAYS_ALLOWED or _CATALOGUE.fullmatch(path):
        return True
    if path in (f"/endpoints/{own}", f"/live/endpoints/{own}"):
        return True
    if path.startswith(f"/endpoints/{own}/"):
        return True
    if path in ("/activity", "/live/activity"):
        return view.request.query_params.getlist("endpoint_id") == [own]
    match = _ACTIVITY.fullmatch(path)
    if match is None:
        return False
    async with view.context.database.read() as connection:
        message = await deliveries.get(connection, match[1])
        shown = message or await sent_tests.get(connection, match[1])
    return shown is not None and shown.endpoint_id == own

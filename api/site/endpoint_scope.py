"""The pages that sessions of portal links may see. A session about one endpoint sees the pages of
that endpoint, its deliveries and its jobs; every other page answers 404, new pages included."""

from __future__ import annotations

import re
from typing import Final

from fastapi import Response

from api.site.page import HOME, View
from hookfast.errors import NotFound
from hookfast.storage.deliveries import deliveries, jobs

_ALWAYS_ALLOWED: Final = (f"{HOME}/sign-out", f"{HOME}/settings/theme", f"{HOME}/search")
_LISTS: Final = (f"{HOME}/deliveries", f"{HOME}/dead-letters", f"{HOME}/live/deliveries")
_BULK: Final = (
    *(f"{HOME}/deliveries/actions", f"{HOME}/deliveries/actions/run"),
    *(f"{HOME}/dead-letters/redrive", f"{HOME}/dead-letters/redrive/run"),
)
_CREDENTIALS: Final = (f"{HOME}/api-keys", f"{HOME}/portal-links")
_DETAILS: Final = re.compile(
    rf"{HOME}/(?:live/)?(deliveries|jobs)/((?:dlv|job)_[0-9a-f]{{32}})(?:/\w+)?"
)


async def confine(view: View) -> Response | None:
    """Raise NotFound for a page outside the session's scope. Return a redirect for a list that must
    be filtered by the session's endpoint, and for the pages that its own page replaces."""
    if view.visitor is None or view.visitor.session.via is None:
        return None
    # the path that the router matches: `request.url` may spell it in another way
    path: str = view.request.scope["path"]
    own = view.visitor.session.endpoint_id
    if own is None:
        # a key or link would outlive the session
        if path in _CREDENTIALS or path.startswith(tuple(f"{each}/" for each in _CREDENTIALS)):
            raise _not_found()
        return None
    if view.request.method == "GET" and path in (HOME, f"{HOME}/endpoints"):
        return view.redirect(f"{HOME}/endpoints/{own}")
    if path in _LISTS and "endpoint_id" not in view.request.query_params:
        return view.redirect(f"{path}?endpoint_id={own}")
    if not await _is_about(own, path, view):
        raise _not_found()
    return None


async def _is_about(own: str, path: str, view: View) -> bool:
    """Return whether a page is about this endpoint only."""
    if path in _ALWAYS_ALLOWED or path in (
        f"{HOME}/endpoints/{own}",
        f"{HOME}/live/endpoints/{own}",
    ):
        return True
    if path.startswith(f"{HOME}/endpoints/{own}/"):
        return True
    if path in _LISTS:
        return view.request.query_params.getlist("endpoint_id") == [own]
    if path in _BULK:
        # the job is confined to the endpoint too (`api.forms.jobs`); the page must agree
        return view.form.text("endpoint_id") == own
    match = _DETAILS.fullmatch(path)
    if match is None:
        return False
    async with view.context.database.read() as connection:
        if match[1] == "jobs":
            job = await jobs.get(connection, match[2])
            return job is not None and job.chosen.get("endpoint_id") == own
        delivery = await deliveries.get(connection, match[2])
        return delivery is not None and delivery.endpoint_id == own


def _not_found() -> NotFound:
    return NotFound("There is no such page, or this link does not lead to it.")

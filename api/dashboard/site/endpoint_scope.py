"""What a session that a portal link began may see. A session about one endpoint has its pages, and
those of its deliveries and jobs; everything else is not there for it, new pages included."""

from __future__ import annotations

import re
from typing import Final

from fastapi import Response

from api.dashboard.site.page import HOME, View
from hookfast.errors import NotFound
from hookfast.storage.deliveries import deliveries, jobs

_FOR_ALL: Final = (f"{HOME}/sign-out", f"{HOME}/settings/theme")
_LISTS: Final = (f"{HOME}/deliveries", f"{HOME}/dead-letters", f"{HOME}/live/deliveries")
_BULK: Final = (
    *(f"{HOME}/deliveries/actions", f"{HOME}/deliveries/actions/run"),
    *(f"{HOME}/dead-letters/redrive", f"{HOME}/dead-letters/redrive/run"),
)
_LASTING: Final = (f"{HOME}/api-keys", f"{HOME}/portal-links")
_ONE: Final = re.compile(
    rf"{HOME}/(?:live/)?(deliveries|jobs)/((?:dlv|job)_[0-9a-f]{{32}})(?:/\w+)?"
)


async def confine(view: View) -> Response | None:
    """Raise NotFound where the session may not see the page; gives the answer where another page
    stands for this one."""
    if view.visitor is None or view.visitor.session.via is None:
        return None
    # as the router sees it: `request.url` could spell the same path in another way
    path: str = view.request.scope["path"]
    own = view.visitor.session.endpoint_id
    if own is None:
        # what is made there would outlive the link
        if path in _LASTING or path.startswith(tuple(f"{each}/" for each in _LASTING)):
            raise _nothing()
        return None
    if view.request.method == "GET" and path in (HOME, f"{HOME}/endpoints"):
        return view.go(f"{HOME}/endpoints/{own}")
    if path in _LISTS and "endpoint_id" not in view.request.query_params:
        return view.go(f"{path}?endpoint_id={own}")
    if not await _is_of(own, path, view):
        raise _nothing()
    return None


async def _is_of(own: str, path: str, view: View) -> bool:
    """Whether a page is about the endpoint and nothing besides."""
    if path in _FOR_ALL or path in (f"{HOME}/endpoints/{own}", f"{HOME}/live/endpoints/{own}"):
        return True
    if path.startswith(f"{HOME}/endpoints/{own}/"):
        return True
    if path in _LISTS:
        return view.request.query_params.getlist("endpoint_id") == [own]
    if path in _BULK:
        # the job is confined to it too (`api.forms.jobs`); the page must not say otherwise
        return view.form.text("endpoint_id") == own
    match = _ONE.fullmatch(path)
    if match is None:
        return False
    async with view.context.database.read() as connection:
        if match[1] == "jobs":
            job = await jobs.get(connection, match[2])
            return job is not None and job.chosen.get("endpoint_id") == own
        delivery = await deliveries.get(connection, match[2])
        return delivery is not None and delivery.endpoint_id == own


def _nothing() -> NotFound:
    return NotFound("There is no such page, or this link does not lead to it.")

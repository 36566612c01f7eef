"""The search box of every page, and the suggestions of the fields in which one picks by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, get_args

from fastapi import Query, Response
from fastapi.responses import HTMLResponse

from api.access.authentication import OperatorOnly, Reader, Writer
from api.dashboard.pages import tenant_names
from api.dashboard.site import DASHBOARD
from api.forms.search import MAX_TEXT, SearchHit, SearchResults
from api.routes.search import search
from api.site import choices
from api.site.choices import OFFERED, Kind
from api.site.page import PageView, View
from api.site.page_route import PageRouter, error_sentence
from hookfast.errors import InvalidInput

routes = PageRouter(DASHBOARD)

_KINDS: Final = {
    "event": "Events",
    "delivery": "Deliveries",
    "test": "Tests",
    "endpoint": "Endpoints",
    "subscription": "Subscriptions",
    "event_type": "Event types",
    "tenant": "Tenants",
    "source": "Sources",
    "inbox_entry": "Received requests",
    "job": "Jobs",
    "api_key": "API keys",
    "audit_entry": "Audit log entries",
    "retention_run": "Retention runs",
}

_MAY_PICK: Final[Mapping[Kind, Any]] = {"tenant": OperatorOnly, "api_key": Writer}
"""Who gets suggestions of a kind, if not everybody."""

Text = Annotated[str | None, Query(max_length=MAX_TEXT)]


@routes.get("/search")
async def search_page(view: PageView, principal: Reader, q: Text = None) -> Response:
    """Redirect to what was found if it is one thing; else list it, or say what can be searched."""
    if q is None:
        return _page(view, None)
    try:
        results = await search(q, view.context, principal, tenant_id=view.tenant_id)
        elsewhere = not results.data and view.is_operator and view.tenant_id is not None
        if elsewhere:  # the text may belong to a tenant that is not shown
            results = await search(q, view.context, principal)
    except InvalidInput as error:
        return _page(view, None, error=error_sentence(error), status=422)
    only = _only_hit(results)
    if only is not None and not elsewhere:
        return view.redirect(only.page)
    await tenant_names.load_owners(view, results.data)
    return _page(view, results, text=q, elsewhere=elsewhere and bool(results.data))


def _only_hit(results: SearchResults) -> SearchHit | None:
    """Return the hit to go to: the only one, or the only exact one."""
    exact = [hit for hit in results.data if hit.exact] or results.data
    return exact[0] if len(exact) == 1 else None


def _page(
    view: View,
    results: SearchResults | None,
    *,
    text: str = "",
    error: str | None = None,
    elsewhere: bool = False,
    status: int = 200,
) -> Response:
    hits = [] if results is None else results.data
    groups = [(title, [hit for hit in hits if hit.kind == kind]) for kind, title in _KINDS.items()]
    return view.render(
        "search.html",
        status=status,
        searched=text,
        error=error,
        hint=None if results is None else results.hint,
        groups=[(title, found) for title, found in groups if found],
        elsewhere=elsewhere,
    )


def _add_suggestions(kind: Kind, allowed: Any) -> None:
    """Add the page with the suggestions of a kind, for those with one of the `allowed` scopes."""

    @routes.get(choices.PATHS[kind], dependencies=[get_args(allowed)[1]])
    async def suggest(view: PageView, q: Text = None) -> Response:
        """Answer the options that match a text, as the HTML of a `datalist`."""
        found = []
        if choices.may_pick(view, kind):
            async with view.context.database.read() as connection:
                found = await choices.suggest(view, connection, kind, q or "")
        return HTMLResponse(view.html("choices.html", found=found[:OFFERED]))


for _kind in choices.PATHS:
    _add_suggestions(_kind, _MAY_PICK.get(_kind, Reader))

"""The form for a new endpoint: its URL, the events that it gets, and the rest folded away."""

from __future__ import annotations

from typing import Any

from fastapi import Response

from api.access.audit import Audit
from api.access.authentication import Principal, Writer
from api.forms.endpoint import NewEndpoint
from api.portal.errors import render_form
from api.portal.pages.event_tree import ticked, tree_values
from api.portal.pages.secret import render_secret
from api.portal.site import PORTAL
from api.portal.snippets import LANGUAGES, challenge_snippet
from api.routes.endpoints import create_endpoint
from api.site.endpoint_fields import settings_form
from api.site.form import validated
from api.site.page import PageView, View
from api.site.page_route import PageRouter
from api.site.settings_form import members
from hookfast.errors import Conflict, HookfastError, InvalidInput, TooManyRequests
from hookfast.resources.setting import Portal

routes = PageRouter(PORTAL)

_SHOWN = settings_form(Portal)


@routes.get("/endpoints/new")
async def new_endpoint_page(view: PageView, principal: Writer) -> Response:
    """Show the form for a new endpoint."""
    return await _form(view, principal, _SHOWN.new_fields(), patterns=[])


@routes.post("/endpoints/new")
async def add_endpoint(view: PageView, audit: Audit, principal: Writer) -> Response:
    """Create an endpoint; only this answer shows its secret. Or, for visitors without script, count
    the event types that the ticked boxes match."""
    fields = _SHOWN.submitted_fields(view.form)
    patterns = ticked(view.form)
    if view.form.text("count"):
        return await _form(view, principal, fields, patterns=patterns)
    try:
        given = members(view.form, _SHOWN.new().values())
        given = {name: value for name, value in given.items() if value is not None}
        if not patterns:
            raise InvalidInput.at("/events", "tick at least one event, or all of them")
        form = validated(NewEndpoint, given | {"tenant_id": view.tenant_id, "events": patterns})
        created = await create_endpoint(form, view.context, audit, principal)
    except (InvalidInput, Conflict, TooManyRequests) as error:
        return await _form(view, principal, fields, patterns=patterns, error=error)
    return render_secret(view, created, secret=created.secret or "", rotated=False)


async def _form(
    view: View,
    principal: Principal,
    fields: dict[str, Any],
    *,
    patterns: list[str],
    error: HookfastError | None = None,
) -> Response:
    return render_form(
        view,
        "endpoint_new.html",
        error,
        fields=fields,
        settings=_SHOWN.new(),
        tree=await tree_values(view, principal, patterns),
        challenges=[(each, challenge_snippet(each.id)) for each in LANGUAGES.values()],
    )

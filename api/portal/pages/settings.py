"""The forms that change an endpoint's settings: those that everyone has, and the advanced ones."""

from __future__ import annotations

from fastapi import Response

from api.access.audit import Audit
from api.access.authentication import Writer
from api.forms.endpoint import EndpointView
from api.portal.errors import render_form
from api.portal.site import PORTAL
from api.routes.endpoints import change_endpoint
from api.site.endpoint_fields import changes, settings_form
from api.site.form import check_unchanged, seen_version
from api.site.from_path import StoredEndpoint
from api.site.moved_credentials import asks_again, in_plain_words
from api.site.page import PageView, View
from api.site.page_route import PageRouter
from hookfast.errors import Conflict, HookfastError, InvalidInput, TooManyRequests
from hookfast.resources.setting import Portal

routes = PageRouter(PORTAL)


@routes.get("/endpoints/{endpoint_id}/edit")
async def edit_page(view: PageView, _: Writer, endpoint: StoredEndpoint) -> Response:
    """Show the form with the settings of an endpoint."""
    return _form(view, endpoint)


@routes.post("/endpoints/{endpoint_id}/edit")
async def edit(
    endpoint: StoredEndpoint, view: PageView, audit: Audit, principal: Writer
) -> Response:
    """Save the settings that differ from the stored ones."""
    try:
        check_unchanged(view.form, endpoint.updated_at)
        shown = settings_form(Portal, endpoint.mode)
        patch = changes(view.form, shown.settings.values(), endpoint)
        if patch:
            await change_endpoint(endpoint.id, patch, view.context, audit, principal)
    except (InvalidInput, Conflict, TooManyRequests) as error:
        return _form(view, endpoint, error)
    notice = "The settings are saved." if patch else "Nothing changed."
    return view.redirect(f"{PORTAL.home}/endpoints/{endpoint.id}", notice)


def _form(view: View, endpoint: EndpointView, error: HookfastError | None = None) -> Response:
    shown = settings_form(Portal, endpoint.mode)
    fields = shown.stored_fields(endpoint) if error is None else shown.submitted_fields(view.form)
    return render_form(
        view,
        "endpoint_edit.html",
        in_plain_words(error),
        asks_again=asks_again(view.form, error),
        endpoint=endpoint,
        seen=seen_version(endpoint.updated_at),
        settings=shown.settings,
        fields=fields,
    )

"""The forms that change an endpoint's settings: many of them, or one group, which the endpoint's
page shows with its own link to the form."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Response

from api.access.audit import Audit
from api.access.authentication import Writer
from api.dashboard.site import DASHBOARD
from api.forms.endpoint import EndpointView
from api.routes.endpoints import change_endpoint
from api.site.endpoint_fields import changes, settings_form
from api.site.form import check_unchanged, seen_version
from api.site.from_path import StoredEndpoint
from api.site.moved_credentials import asks_again, in_plain_words
from api.site.page import PageView, View
from api.site.page_route import PageRouter
from api.site.settings_form import Group
from hookfast.errors import Conflict, HookfastError, InvalidInput, NotFound, TooManyRequests
from hookfast.resources.setting import Dashboard

routes = PageRouter(DASHBOARD)


@routes.get("/endpoints/{endpoint_id}/settings")
async def settings_page(view: PageView, _: Writer, endpoint: StoredEndpoint) -> Response:
    """Show the form with many settings of an endpoint."""
    return _form(view, endpoint)


@routes.post("/endpoints/{endpoint_id}/settings")
async def change_settings(
    endpoint: StoredEndpoint, view: PageView, audit: Audit, principal: Writer
) -> Response:
    """Save the settings of an endpoint that differ from the stored ones."""
    return await _save(endpoint, view, audit, principal, group=None)


async def _group(group: str, endpoint: StoredEndpoint) -> Group:
    """Return the group of this name. Raises NotFound for a group that the endpoint does not have: a
    polled one has no settings of requests."""
    found = settings_form(Dashboard, endpoint.mode).groups.get(group)
    if found is None:
        raise NotFound("The endpoint has no such settings.")
    return found


OwnGroup = Annotated[Group, Depends(_group)]


@routes.get("/endpoints/{endpoint_id}/settings/{group}")
async def group_page(
    group: OwnGroup, view: PageView, _: Writer, endpoint: StoredEndpoint
) -> Response:
    """Show the form with one group of an endpoint's settings."""
    return _form(view, endpoint, group=group)


@routes.post("/endpoints/{endpoint_id}/settings/{group}")
async def change_group(
    group: OwnGroup, endpoint: StoredEndpoint, view: PageView, audit: Audit, principal: Writer
) -> Response:
    """Save one group of an endpoint's settings, and return to it on the endpoint's page."""
    return await _save(endpoint, view, audit, principal, group=group)


async def _save(
    endpoint: EndpointView, view: View, audit: Audit, principal: Writer, *, group: Group | None
) -> Response:
    shown = settings_form(Dashboard, endpoint.mode)
    try:
        check_unchanged(view.form, endpoint.updated_at)
        settings = shown.new().values() if group is None else group.settings
        patch = changes(view.form, settings, endpoint)
        if patch:
            await change_endpoint(endpoint.id, patch, view.context, audit, principal)
    except (InvalidInput, Conflict, TooManyRequests) as error:
        return _form(view, endpoint, error, group)
    page = f"/dashboard/endpoints/{endpoint.id}"
    if group is None:
        return view.redirect(page, "The settings are saved." if patch else "Nothing changed.")
    saved = f"{group.title}: saved." if patch else "Nothing changed."
    return view.redirect(f"{page}#setting-{group.name}", saved)


def _form(
    view: View,
    endpoint: EndpointView,
    error: HookfastError | None = None,
    group: Group | None = None,
) -> Response:
    shown = settings_form(Dashboard, endpoint.mode)
    fields = shown.stored_fields(endpoint) if error is None else shown.submitted_fields(view.form)
    return view.render_form(
        "endpoint_settings.html" if group is None else "endpoint_setting.html",
        error=in_plain_words(error),
        asks_again=asks_again(view.form, error),
        headers=shown.settings.get("headers"),
        label=shown.label,
        endpoint=endpoint,
        seen=seen_version(endpoint.updated_at),
        settings=shown.new(),
        fields=fields,
        group=group,
        title="Settings" if group is None else group.title,
        policy=view.context.settings.circuit_policy,
    )

"""The forms that change an endpoint's settings: many of them, or one group, which the endpoint's
page shows with its own link to the form."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Response

from api.access.audit import Audit
from api.access.authentication import Writer
from api.dashboard.site import DASHBOARD
from api.forms.endpoint import EndpointView
from api.routes.endpoints import change_endpoint
from api.site import endpoint_fields
from api.site.endpoint_fields import GROUPS, Group
from api.site.form import check_unchanged, seen_version
from api.site.from_path import StoredEndpoint
from api.site.page import PageView, View
from api.site.page_route import PageRouter
from hookfast.errors import Conflict, HookfastError, InvalidInput, NotFound, TooManyRequests

routes = PageRouter(DASHBOARD)


@routes.get("/endpoints/{endpoint_id}/settings")
async def settings_page(view: PageView, _: Writer, endpoint: StoredEndpoint) -> Response:
    """Show the form with many settings of an endpoint."""
    return _form(view, endpoint, endpoint_fields.stored_fields(endpoint))


@routes.post("/endpoints/{endpoint_id}/settings")
async def change_settings(
    endpoint: StoredEndpoint, view: PageView, audit: Audit, principal: Writer
) -> Response:
    """Save the settings of an endpoint that differ from the stored ones."""
    return await _save(endpoint, view, audit, principal, group=None)


async def _group(group: str, endpoint: StoredEndpoint) -> Group:
    """Return the group of this name. Raises NotFound for a group that the endpoint does not have: a
    polled one has no settings of requests."""
    found = GROUPS.get(group)
    if found is None or (endpoint.mode != "push" and not found.is_for_polled):
        raise NotFound("The endpoint has no such settings.")
    return found


OwnGroup = Annotated[Group, Depends(_group)]


@routes.get("/endpoints/{endpoint_id}/settings/{group}")
async def group_page(
    group: OwnGroup, view: PageView, _: Writer, endpoint: StoredEndpoint
) -> Response:
    """Show the form with one group of an endpoint's settings."""
    return _form(view, endpoint, endpoint_fields.stored_fields(endpoint), group=group)


@routes.post("/endpoints/{endpoint_id}/settings/{group}")
async def change_group(
    group: OwnGroup, endpoint: StoredEndpoint, view: PageView, audit: Audit, principal: Writer
) -> Response:
    """Save one group of an endpoint's settings, and return to it on the endpoint's page."""
    return await _save(endpoint, view, audit, principal, group=group)


async def _save(
    endpoint: EndpointView, view: View, audit: Audit, principal: Writer, *, group: Group | None
) -> Response:
    names = endpoint_fields.FORM if group is None else group.members
    try:
        check_unchanged(view.form, endpoint.updated_at)
        members = endpoint_fields.api_members(view.form, names)
        patch = endpoint_fields.changes(members, endpoint)
        if patch:
            await change_endpoint(endpoint.id, patch, view.context, audit, principal)
    except (InvalidInput, Conflict, TooManyRequests) as error:
        return _form(view, endpoint, endpoint_fields.submitted_fields(view.form), error, group)
    page = f"/dashboard/endpoints/{endpoint.id}"
    if group is None:
        return view.redirect(page, "The settings are saved." if patch else "Nothing changed.")
    saved = f"{group.title}: saved." if patch else "Nothing changed."
    return view.redirect(f"{page}#setting-{group.name}", saved)


def _form(
    view: View,
    endpoint: EndpointView,
    fields: dict[str, Any],
    error: HookfastError | None = None,
    group: Group | None = None,
) -> Response:
    return view.render_form(
        "endpoint_settings.html" if group is None else "endpoint_setting.html",
        error=error,
        endpoint=endpoint,
        seen=seen_version(endpoint.updated_at),
        fields=fields,
        plans=endpoint_fields.PLANS,
        profiles=endpoint_fields.PROFILES,
        group=group,
        title="Settings" if group is None else group.title,
        policy=view.context.settings.circuit_policy,
    )

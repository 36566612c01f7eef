"""Test messages: a sample to edit, which is sent at once and kept in the activity."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response

from api.access.authentication import Principal, Writer
from api.forms.endpoint import EndpointView
from api.forms.endpoint_test import TestForm
from api.forms.sample import parse_edited
from api.http.pagination import MAX_LIMIT, Page
from api.portal.errors import render_form
from api.portal.site import PORTAL
from api.portal.words import state_of_test
from api.routes.endpoint_tests import run_test
from api.routes.subscriptions import list_subscriptions
from api.site.form import validated
from api.site.from_path import StoredEndpoint
from api.site.json_view import pretty
from api.site.page import PageView, View
from api.site.page_route import PageRouter
from api.site.sample_editor import sample_editor
from hookfast.deliveries.outcome import Result
from hookfast.errors import Conflict, HookfastError, InvalidInput, TooManyRequests

routes = PageRouter(PORTAL)

_ALL = Page(limit=MAX_LIMIT, after=None)

ChosenType = Annotated[str | None, Query(alias="type", max_length=200)]


@routes.get("/endpoints/{endpoint_id}/test")
async def sample_page(
    view: PageView, principal: Writer, endpoint: StoredEndpoint, chosen: ChosenType = None
) -> Response:
    """Show the sample of an event type, to edit and send."""
    return await _form(view, principal, endpoint, chosen=chosen, data=None)


@routes.post("/endpoints/{endpoint_id}/test")
async def send_test(view: PageView, principal: Writer, endpoint: StoredEndpoint) -> Response:
    """Send the message, and show the request and the answer."""
    chosen, data = view.form.get("type", ""), view.form.get("data", "")
    try:
        form = validated(TestForm, {"type": chosen})
        test = await run_test(endpoint.id, form, view.context, principal, data=parse_edited(data))
    except (InvalidInput, Conflict, TooManyRequests) as error:
        return await _form(view, principal, endpoint, chosen=chosen, data=data, error=error)
    kept = f"{PORTAL.home}/activity/{test.message_id}"
    if test.kept:
        return view.redirect(kept)
    # it was sent, but could not be stored: this page is all that shows it
    view.result_path = f"{PORTAL.home}/endpoints/{endpoint.id}"
    return view.render(
        "test.html",
        test=test,
        state=state_of_test(test.result or Result.SUCCESS),
        body=pretty(test.body)[0],
        names={endpoint.id: endpoint.url},
    )


async def _form(
    view: View,
    principal: Principal,
    endpoint: EndpointView,
    *,
    chosen: str | None,
    data: str | None,
    error: HookfastError | None = None,
) -> Response:
    subscribed = await list_subscriptions(_ALL, view.context, principal, endpoint_id=endpoint.id)
    editor = await sample_editor(
        view, principal, name=chosen, data=data, subscriptions=subscribed.data
    )
    return render_form(view, "endpoint_test.html", error, endpoint=endpoint, editor=editor)

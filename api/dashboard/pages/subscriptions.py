"""An endpoint's subscriptions, which its page adds, edits, switches on and off, and deletes."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import Response

from api.access.audit import Audit
from api.access.authentication import Principal, Writer
from api.dashboard.pages.endpoint import SUBSCRIPTION, render_endpoint
from api.dashboard.site import DASHBOARD
from api.forms.endpoint_test import TestForm
from api.http.fields import EndpointPath
from api.routes.endpoint_tests import run_test
from api.routes.endpoints import get_endpoint
from api.routes.subscriptions import (
    NewSubscription,
    PreviewForm,
    PreviewView,
    SavedSubscription,
    SubscriptionView,
    change_subscription,
    create_subscription,
    preview_subscription,
)
from api.site.flash import Tone
from api.site.form import Form, changed_members, check_unchanged, seen_version, validated
from api.site.formatting import curly
from api.site.from_path import (
    OwnSubscription,
    delete_own_subscription,
)
from api.site.json_view import pretty
from api.site.page import InvalidField, PageView, View
from api.site.page_route import PageRouter, error_sentence
from api.site.sample_editor import example_types
from api.site.settings_form import members
from hookfast.errors import Conflict, HookfastError, InvalidInput
from hookfast.events.filter import filter_text
from hookfast.strict_json.text import to_text

routes = PageRouter(DASHBOARD)


@routes.post("/endpoints/{endpoint_id}/subscriptions")
async def subscribe(
    endpoint_id: EndpointPath, view: PageView, audit: Audit, principal: Writer
) -> Response:
    """Subscribe the endpoint to more events. Its receiver is asked about topics new to it."""
    await get_endpoint(endpoint_id, view.context, principal)
    try:
        given = {
            "endpoint_id": endpoint_id,
            "events": _patterns(view.form.get("events", "")),
            **_payload(view.form),
            "filter": _filter(view),
            **members(view.form, SUBSCRIPTION.settings.values()),
        }
        form = validated(NewSubscription, given)
        created = await create_subscription(form, view.context, audit, principal)
    except InvalidInput as error:
        _show_error(view, error)
        return await render_endpoint(endpoint_id, view=view, principal=principal, status=422)
    notice, tone = _notice(f"Subscribed to {', '.join(created.events)}.", created)
    return view.redirect_back(notice, tone=tone)


@routes.post("/endpoints/{endpoint_id}/subscriptions/preview")
async def preview(endpoint_id: EndpointPath, view: PageView, principal: Writer) -> Response:
    """Show how many of the last events the typed subscription would have got. Stores nothing."""
    await get_endpoint(endpoint_id, view.context, principal)
    try:
        found = await _preview(view, endpoint_id, principal)
    except InvalidInput as error:
        _show_error(view, error)
        return await render_endpoint(endpoint_id, view=view, principal=principal, status=422)
    return await render_endpoint(endpoint_id, view=view, principal=principal, preview=found)


@routes.post("/endpoints/{endpoint_id}/subscriptions/{subscription_id}/switch")
async def switch(
    subscription: OwnSubscription, view: PageView, audit: Audit, principal: Writer
) -> Response:
    """Switch a subscription on or off, as the form says."""
    active = view.form.text("active") is not None
    await change_subscription(subscription.id, {"active": active}, view.context, audit, principal)
    return view.redirect_back(
        "The subscription is on." if active else "The subscription is off: no new events go out."
    )


@routes.get("/endpoints/{endpoint_id}/subscriptions/{subscription_id}/edit")
async def edit_page(view: PageView, principal: Writer, subscription: OwnSubscription) -> Response:
    """Show the form that changes a subscription, and what its filter does to the last events."""
    found = None
    if subscription.filter is not None:
        form = PreviewForm(
            endpoint_id=subscription.endpoint_id,
            events=subscription.events,
            filter=subscription.filter,
        )
        found = await preview_subscription(form, view.context, principal)
    return await _form(view, principal, subscription, preview=found)


@routes.post("/endpoints/{endpoint_id}/subscriptions/{subscription_id}/edit")
async def edit(
    subscription: OwnSubscription, view: PageView, audit: Audit, principal: Writer
) -> Response:
    """Save a subscription's settings. Its receiver is asked about topics new to it."""
    try:
        given = {
            "events": _patterns(view.form.get("events", "")),
            **_payload(view.form),
            **members(view.form, SUBSCRIPTION.settings.values()),
        }
        patch = changed_members(given, subscription)
        if "filter" in view.form and _is_changed(typed_filter := _filter(view), subscription):
            patch["filter"] = typed_filter  # not a patch of it: it is replaced as a whole
        check_unchanged(view.form, subscription.updated_at)
        path = f"/dashboard/endpoints/{subscription.endpoint_id}#subscriptions-heading"
        if not patch:
            return view.redirect(path, "Nothing changed.")
        saved = await change_subscription(subscription.id, patch, view.context, audit, principal)
    except (InvalidInput, Conflict) as error:
        return await _form(view, principal, subscription, error=error)
    notice, tone = _notice("The subscription is saved.", saved)
    return view.redirect(path, notice, tone=tone)


@routes.post("/endpoints/{endpoint_id}/subscriptions/{subscription_id}/preview")
async def preview_edited(
    subscription: OwnSubscription, view: PageView, principal: Writer
) -> Response:
    """Show how many of the last events the changed subscription would have got. Stores nothing."""
    form = partial(_form, view, principal, subscription)
    try:
        return await form(preview=await _preview(view, subscription.endpoint_id, principal))
    except InvalidInput as error:
        return await form(error=error)


@routes.post("/endpoints/{endpoint_id}/subscriptions/{subscription_id}/preview-mapping")
async def preview_mapping(
    subscription: OwnSubscription, view: PageView, principal: Writer
) -> Response:
    """Show the body that the typed mapping makes of an example event. Sends and stores nothing."""
    form = partial(_form, view, principal, subscription)
    try:
        mapping = _payload(view.form)["mapping"]
        if mapping is None:
            raise InvalidInput.at("/mapping", "choose the payload `mapped` and give a mapping")
        given = {"type": view.form.get("type", ""), "dry_run": True, "mapping": mapping}
        test = await run_test(
            subscription.endpoint_id, validated(TestForm, given), view.context, principal
        )
        return await form(mapped_body=test.body)
    except InvalidInput as error:
        return await form(error=error)


def _notice(done: str, saved: SavedSubscription) -> tuple[str, Tone]:
    """Return the notice with the first warning; the page has all of them beside the patterns."""
    if not saved.warnings:
        return done, "good"
    return f"{done} {curly(saved.warnings[0].detail)}", "warn"


def _patterns(typed: str) -> list[str]:
    return typed.replace(",", " ").split()


def _filter(view: View) -> Any:
    """Return the typed filter, None for an empty one. Raises InvalidInput."""
    found = view.form.json("filter", pointer="/filter")
    return None if found == {} else found


def _is_changed(typed: Any, subscription: SubscriptionView) -> bool:
    """Return whether a filter is another one. As text, because for Python 1 equals true and 1.0."""
    return to_text(typed) != to_text(subscription.filter)


async def _preview(view: View, endpoint_id: str, principal: Writer) -> PreviewView:
    given = {
        "endpoint_id": endpoint_id,
        "events": _patterns(view.form.get("events", "")),
        "filter": _filter(view),
    }
    return await preview_subscription(validated(PreviewForm, given), view.context, principal)


def _payload(form: Form) -> dict[str, str | None]:
    """Return the form's payload and mapping. A mapping left over from `mapped` does not count."""
    payload = form.get("payload", "full")
    # browsers send line breaks as CR LF
    mapping = form.get("mapping", "").replace("\r\n", "\n") or None
    return {"payload": payload, "mapping": mapping if payload == "mapped" else None}


def _show_error(view: View, error: InvalidInput) -> None:
    """Show an error at its field: the filter's, the mapping's, or that of the events."""
    name, detail = "events", error_sentence(error)
    if any(each.pointer.startswith("/filter") for each in error.errors):
        name = "filter"
    elif [each.pointer for each in error.errors] == ["/mapping"]:
        name, detail = "mapping", error.errors[0].detail
    view.invalid[name] = InvalidField(view.form.get(name, ""), detail)


async def _form(
    view: View,
    principal: Principal,
    subscription: SubscriptionView,
    *,
    error: HookfastError | None = None,
    preview: PreviewView | None = None,
    mapped_body: str | None = None,
) -> Response:
    """Render the form with what is stored, or was typed into it."""
    if isinstance(error, InvalidInput):
        _show_error(view, error)
    return view.render_form(
        "subscription.html",
        error=error,
        subscription=subscription,
        endpoint=await get_endpoint(subscription.endpoint_id, view.context, principal),
        seen=view.form.text("seen") or seen_version(subscription.updated_at),
        settings=SUBSCRIPTION.settings.values(),
        fields=_typed(view.form) if view.form else _stored(subscription),
        preview=preview,
        event_types=[each.name for each in await example_types(view, principal)],
        mapped_body=mapped_body,
        previewed_type=view.form.get("type"),
    )


def _typed(form: Form) -> dict[str, Any]:
    typed = {"events": form.get("events", ""), "filter": form.get("filter", "")}
    return typed | _payload(form) | SUBSCRIPTION.submitted_fields(form)


def _stored(subscription: SubscriptionView) -> dict[str, Any]:
    conditions = subscription.filter
    return {
        "events": ", ".join(subscription.events),
        "payload": subscription.payload,
        "mapping": subscription.mapping,
        "filter": "" if conditions is None else pretty(filter_text(conditions))[0],
        **SUBSCRIPTION.stored_fields(subscription),
    }


routes.confirmed_action(
    "/endpoints/{endpoint_id}/subscriptions/{subscription_id}/delete",
    delete_own_subscription,
    "The subscription is deleted.",
    of=OwnSubscription,
    title="Delete this subscription?",
    about=lambda subscription: ", ".join(subscription.events),
    text="The endpoint gets no more of these events. Existing deliveries continue.",
    button="Delete",
    back=lambda subscription: f"/dashboard/endpoints/{subscription.endpoint_id}",
)

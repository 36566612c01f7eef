"""An endpoint's subscriptions, which its page adds, edits, switches on and off, and deletes."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import Depends, Response

from api.access.audit import Audit
from api.access.authentication import Principal, Reader, Writer
from api.dashboard.pages.endpoint import example_types, render_endpoint
from api.dashboard.site.form import Form, changed_members, check_unchanged, seen_version, validated
from api.dashboard.site.page import InvalidField, PageView, View
from api.dashboard.site.page_route import PageRouter, error_sentence
from api.http.fields import EndpointPath, SubscriptionPath
from api.process.context import AppContext
from api.routes.endpoint_checks import TestForm, run_test
from api.routes.endpoints import get_endpoint
from api.routes.subscriptions import (
    NewSubscription,
    SubscriptionView,
    change_subscription,
    create_subscription,
    delete_subscription,
    get_subscription,
)
from hookfast.errors import Conflict, HookfastError, InvalidInput, NotFound

routes = PageRouter()


async def _subscription_of_endpoint(
    endpoint_id: EndpointPath,
    subscription_id: SubscriptionPath,
    context: AppContext,
    principal: Reader,
) -> SubscriptionView:
    """Return the endpoint's subscription. Raises NotFound for another endpoint's: a session about
    one endpoint must not reach others through this path."""
    subscription = await get_subscription(subscription_id, context, principal)
    if subscription.endpoint_id != endpoint_id:
        raise NotFound("The endpoint has no such subscription.")
    return subscription


OwnSubscription = Annotated[SubscriptionView, Depends(_subscription_of_endpoint)]


@routes.post("/endpoints/{endpoint_id}/subscriptions")
async def subscribe(
    endpoint_id: EndpointPath, view: PageView, audit: Audit, principal: Writer
) -> Response:
    """Subscribe the endpoint to more events. Its receiver is asked about topics new to it."""
    await get_endpoint(endpoint_id, view.context, principal)
    typed = view.form.get("events", "")
    members = {
        "endpoint_id": endpoint_id,
        "events": _patterns(typed),
        **_payload(view.form),
    }
    try:
        form = validated(NewSubscription, members)
        created = await create_subscription(form, view.context, audit, principal)
    except InvalidInput as error:
        if not _mark_mapping(view, error):
            view.invalid["events"] = InvalidField(typed, error_sentence(error))
        return await render_endpoint(endpoint_id, view=view, principal=principal, status=422)
    return view.redirect_back(f"Subscribed to {', '.join(created.events)}.")


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
    """Show the form that changes a subscription."""
    return await _form(
        view,
        principal,
        subscription,
        events=", ".join(subscription.events),
        payload={"payload": subscription.payload, "mapping": subscription.mapping},
    )


@routes.post("/endpoints/{endpoint_id}/subscriptions/{subscription_id}/edit")
async def edit(
    subscription: OwnSubscription, view: PageView, audit: Audit, principal: Writer
) -> Response:
    """Save a subscription's events and payload, or preview its mapping. Its receiver is asked about
    topics new to it."""
    typed = view.form.get("events", "")
    payload = _payload(view.form)
    form = partial(_form, view, principal, subscription, events=typed, payload=payload)
    patch = changed_members({"events": _patterns(typed), **payload}, subscription)
    try:
        if view.form.text("preview") is not None:
            view.result_path = view.path
            return await form(preview=await _preview(subscription, view, principal))
        check_unchanged(view.form, subscription.updated_at)
        if patch:
            await change_subscription(subscription.id, patch, view.context, audit, principal)
    except (InvalidInput, Conflict) as error:
        _mark_mapping(view, error)
        return await form(error=error)
    return view.redirect(
        f"/dashboard/endpoints/{subscription.endpoint_id}#subscriptions-heading",
        "The subscription is saved." if patch else "Nothing changed.",
    )


def _patterns(typed: str) -> list[str]:
    return typed.replace(",", " ").split()


def _payload(form: Form) -> dict[str, str | None]:
    """Return the form's payload and mapping. A mapping left over from `mapped` does not count."""
    payload = form.get("payload", "full")
    # browsers send line breaks as CR LF
    mapping = form.get("mapping", "").replace("\r\n", "\n") or None
    return {"payload": payload, "mapping": mapping if payload == "mapped" else None}


def _mark_mapping(view: View, error: HookfastError) -> bool:
    """Show an error of the mapping at its field. Return whether it is one."""
    if not isinstance(error, InvalidInput) or error.errors[:1] != error.errors:
        return False
    if not error.errors or error.errors[0].pointer != "/mapping":
        return False
    view.invalid["mapping"] = InvalidField(view.form.get("mapping", ""), error.errors[0].detail)
    return True


async def _preview(subscription: SubscriptionView, view: View, principal: Principal) -> str:
    """Return the body that the form's mapping makes of an example. Raises InvalidInput."""
    mapping = _payload(view.form)["mapping"]
    if mapping is None:
        raise InvalidInput.at("/mapping", "choose the payload `mapped` and give a mapping")
    members = {"type": view.form.get("type", ""), "dry_run": True, "mapping": mapping}
    test = await run_test(
        subscription.endpoint_id, validated(TestForm, members), view.context, principal
    )
    return test.body


async def _form(
    view: View,
    principal: Principal,
    subscription: SubscriptionView,
    *,
    events: str,
    payload: dict[str, str | None],
    preview: str | None = None,
    error: HookfastError | None = None,
) -> Response:
    return view.render_form(
        "subscription.html",
        error=error,
        subscription=subscription,
        # a preview saves nothing, so the form still shows what it showed before
        seen=view.form.get("seen") if preview else seen_version(subscription.updated_at),
        events=events,
        **payload,
        event_types=await example_types(view, principal),
        preview=preview,
        previewed_type=view.form.get("type"),
    )


@routes.get("/endpoints/{endpoint_id}/subscriptions/{subscription_id}/delete")
async def delete_page(view: PageView, _: Writer, subscription: OwnSubscription) -> Response:
    """Ask before a subscription is deleted."""
    return view.confirm(
        "Delete this subscription?",
        about=", ".join(subscription.events),
        text="The endpoint gets no more of these events. Existing deliveries continue.",
        button="Delete",
        back=f"/dashboard/endpoints/{subscription.endpoint_id}",
    )


async def _delete(
    subscription: OwnSubscription, context: AppContext, audit: Audit, principal: Writer
) -> None:
    await delete_subscription(subscription.id, context, audit, principal)


routes.action(
    "/endpoints/{endpoint_id}/subscriptions/{subscription_id}/delete",
    _delete,
    "The subscription is deleted.",
)

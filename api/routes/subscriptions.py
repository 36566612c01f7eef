"""Subscriptions: which event types go to which endpoint."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Self

from fastapi import Query
from pydantic import BaseModel, Field
from sqlalchemy.ext.asyncio import AsyncConnection

from api.access.audit import Audit
from api.access.authentication import Reader, Writer
from api.access.body_owners import tenant_owners
from api.access.ownership import check_tenant_exists, found, owned
from api.access.quotas import lock_tenant
from api.context.context import AppContext, Context
from api.forms.endpoint import check_patterns
from api.forms.subscription import (
    MAX_EXAMPLE,
    check_payload,
    checked_filter,
    parse_example,
)
from api.forms.unmatched import PatternWarning, check_matches
from api.forms.verification import VERIFIED, verify_stored
from api.http.fields import (
    EndpointFilter,
    EndpointId,
    Input,
    SubscriptionPath,
    TenantFilter,
    Time,
    example,
)
from api.http.merge_patch import MergePatch, patch_of, patched
from api.http.pagination import Listing, PageQuery
from api.http.routing import router
from api.http.settings_view import OwnedView, view_of
from api.openapi.example_values import IDS
from hookfast.errors import Conflict, InvalidInput
from hookfast.events.event_type import parse_event_type
from hookfast.ids import new_id
from hookfast.resources.subscription import ContentFilter, Patterns, SubscriptionSettings
from hookfast.storage.audit.audited import created, deleted, facts, updated
from hookfast.storage.endpoints import endpoints, subscriptions
from hookfast.storage.events import recent
from hookfast.storage.events.filtering import Example, StoredData, passed_events
from hookfast.storage.tables import Endpoint, Subscription

routes = router("Subscriptions")


class NewSubscription(SubscriptionSettings):
    """A new subscription."""

    model_config = example(
        endpoint_id=IDS["endpoint"], events=["order.invoice.paid", "order.refund.*"]
    )

    endpoint_id: EndpointId


if TYPE_CHECKING:
    _SettingsView = SubscriptionSettings
else:
    _SettingsView = view_of(SubscriptionSettings)


class SubscriptionView(_SettingsView, OwnedView):
    """A subscription of an endpoint to event types."""

    id: str = Field(description="Id of the subscription, `sub_…`.")
    filter: dict[str, Any] | None = Field(
        description="The condition that an event's `data` must match; null: none."
    )
    endpoint_id: str = Field(description="Id of the endpoint that gets the events, `ep_…`.")
    created_at: Time
    updated_at: Time

    @classmethod
    def of(cls, subscription: Subscription) -> Self:
        return cls(**subscription.model_dump())


class SavedSubscription(SubscriptionView):
    """A subscription as it was created or changed."""

    warnings: list[PatternWarning] = Field(
        description="Patterns that match no registered event type. They are valid: the event types "
        "may be registered later."
    )

    @classmethod
    def saved(cls, subscription: Subscription, warnings: list[PatternWarning]) -> Self:
        return cls(**subscription.model_dump(), warnings=warnings)


def new_subscription(
    form: SubscriptionSettings, *, endpoint: Endpoint, events: list[str], at: datetime
) -> Subscription:
    """Return the row of a new subscription of `endpoint`."""
    return Subscription(
        id=new_id("sub", at),
        endpoint_id=endpoint.id,
        tenant_id=endpoint.tenant_id,
        created_at=at,
        updated_at=at,
        **_settings(form, events),
    )


def _settings(form: SubscriptionSettings, events: list[str]) -> dict[str, Any]:
    return {name: getattr(form, name) for name in SubscriptionSettings.model_fields} | {
        "events": events,
        "filter": checked_filter(form.filter),
    }


@routes.post("/subscriptions", status_code=201, summary="Create a subscription")
async def create_subscription(
    form: NewSubscription, context: AppContext, audit: Audit, principal: Writer
) -> SavedSubscription:
    """Before it is created, the endpoint's receiver must confirm each topic that is new to it; with
    the verification `query`, all of them in one request. If the tenant may not have another
    subscription, the response is 409 `quota_exceeded`."""
    events = check_patterns(form.events)
    check_payload(form.payload, form.mapping)
    checked_filter(form.filter)  # before the receiver is asked
    async with context.database.read() as connection:
        endpoint = owned(await endpoints.get(connection, form.endpoint_id), principal)
        warnings = await check_matches(
            context, connection, form.events, tenant_id=endpoint.tenant_id
        )
    _check_order(form, endpoint)
    await _verify_new_topics(context, endpoint, events)
    async with context.database.write() as connection:
        await lock_tenant(connection, context, endpoint.tenant_id, "subscriptions")
        await _lock_verified(connection, endpoint)
        subscription = new_subscription(form, endpoint=endpoint, events=events, at=context.clock())
        await subscriptions.add(connection, subscription)
        await audit.record(connection, created(subscription))
    return SavedSubscription.saved(subscription, warnings)


@routes.get("/subscriptions", summary="List subscriptions, or who would receive an event")
async def list_subscriptions(
    page: PageQuery,
    context: AppContext,
    principal: Reader,
    tenant_id: TenantFilter = None,
    endpoint_id: EndpointFilter = None,
    matches: Annotated[
        str | None,
        Query(
            max_length=200,
            description="An event type: only active subscriptions that would receive it.",
            examples=["order.invoice.paid"],
        ),
    ] = None,
    data: Annotated[
        str | None,
        Query(
            max_length=MAX_EXAMPLE,
            description="With `matches`: the data of an example event, as JSON. Only subscriptions "
            "whose filter it passes are listed. Without it, filters are not applied.",
            examples=['{"amount": 129900, "currency": "EUR"}'],
        ),
    ] = None,
) -> Listing[SubscriptionView]:
    tenant_id = principal.tenant_for(tenant_id)
    if matches is not None:
        parse_event_type(matches, pointer="matches")
    if data is not None and matches is None:
        raise InvalidInput.at("data", "needs `matches`, the type of the example event")
    example = None if data is None else Example(data, parse_example(data, pointer="data"))
    async with context.database.read() as connection:
        await check_tenant_exists(connection, tenant_id)
        if endpoint_id is not None:
            owned(await endpoints.get(connection, endpoint_id), principal)
        rows = await subscriptions.list_page(
            connection,
            tenant_id=tenant_id,
            endpoint_id=endpoint_id,
            matches=matches,
            example=example,
            after=page.after,
            limit=page.rows,
        )
    return page.listing(rows, SubscriptionView.of)


class PreviewForm(Input):
    """A subscription that may not exist yet, to try on past events."""

    model_config = example(
        endpoint_id=IDS["endpoint"],
        events=["order.invoice.paid"],
        filter={"amount": {"$gte": 10_000}},
    )

    endpoint_id: EndpointId
    events: Annotated[Patterns, Field(min_length=1)]
    filter: ContentFilter = None


class PreviewedEvent(BaseModel):
    """A past event."""

    id: str = Field(description="Id of the event, `evt_…`.")
    type: str = Field(description="The event's type, e.g. `order.invoice.paid`.")
    created_at: Time = Field(description="When the event was emitted.")
    matches: bool = Field(description="Whether the filter lets it pass.")


class PreviewView(BaseModel):
    """How a filter would have decided on past events."""

    checked: int = Field(
        description=f"The newest events, at most {recent.MAX_EVENTS}, whose type matches and that "
        "the endpoint's tenant sees; fewer if they have more than 1 MiB together. Only its last "
        f"{recent.SCANNED} events are searched for them."
    )
    matching: int = Field(description="Those that the filter lets pass.")
    events: list[PreviewedEvent] = Field(description="The events, newest first.")


@routes.post("/subscriptions/preview", summary="Try a filter on the last events")
async def preview_subscription(
    form: PreviewForm, context: AppContext, principal: Writer
) -> PreviewView:
    """Says which of the last events a subscription with these patterns and this filter would have
    got. Nothing is stored or sent."""
    events = check_patterns(form.events)
    tried = checked_filter(form.filter)
    async with context.database.read() as connection:
        endpoint = owned(await endpoints.get(connection, form.endpoint_id), principal)
        newest = await recent.find(connection, tenant_id=endpoint.tenant_id, patterns=events)
    with context.bodies.claim("preview", *tenant_owners(principal.tenant_id)) as claim:
        await claim.grow(sum(event.size for event in newest))
        async with context.database.read() as connection:
            found = await recent.load(connection, newest)
        passed = await passed_events(tried, [StoredData(body) for _, body in found])
    return PreviewView(
        checked=len(found),
        matching=sum(passed),
        events=[
            PreviewedEvent(id=event.id, type=event.type, created_at=event.created_at, matches=one)
            for (event, _), one in zip(found, passed, strict=True)
        ],
    )


@routes.get("/subscriptions/{subscription_id}", summary="Get a subscription")
async def get_subscription(
    subscription_id: SubscriptionPath, context: AppContext, principal: Reader
) -> SubscriptionView:
    async with context.database.read() as connection:
        row = owned(await subscriptions.get(connection, subscription_id), principal)
    return SubscriptionView.of(row)


@routes.patch(
    "/subscriptions/{subscription_id}",
    summary="Change a subscription",
    openapi_extra=patch_of(SubscriptionSettings, filter={"amount": {"$gte": 50_000}}, active=True),
)
async def change_subscription(
    subscription_id: SubscriptionPath,
    patch: MergePatch,
    context: AppContext,
    audit: Audit,
    principal: Writer,
) -> SavedSubscription:
    """Topics that are new to the endpoint are verified like those of a new subscription. Another
    payload than `mapped` removes the mapping."""
    async with context.database.read() as connection:
        row = owned(await subscriptions.get(connection, subscription_id), principal)
        endpoint = found(await endpoints.get(connection, row.endpoint_id))
    current = SubscriptionSettings.model_validate(
        row.model_dump(include=set(SubscriptionSettings.model_fields))
    )
    if patch.get("payload", "mapped") != "mapped":
        patch = {"mapping": None} | patch  # it belonged to the payload before
    form = patched(current, patch)
    events = check_patterns(form.events)
    check_payload(form.payload, form.mapping)
    _check_order(form, endpoint)
    settings = _settings(form, events)
    async with context.database.read() as connection:
        warnings = await check_matches(
            context, connection, form.events, tenant_id=row.tenant_id, accepted=row.events
        )
    await _verify_new_topics(context, endpoint, events)
    before = facts(row)
    seen, row.updated_at = row.updated_at, context.clock()
    for name, value in settings.items():
        setattr(row, name, value)
    async with context.database.write() as connection:
        await _lock_verified(connection, endpoint)
        if not await subscriptions.change(connection, row, seen=seen):
            raise changed_meanwhile()
        await audit.record(connection, updated(row, before=before))
    return SavedSubscription.saved(row, warnings)


@routes.delete("/subscriptions/{subscription_id}", status_code=204, summary="Delete a subscription")
async def delete_subscription(
    subscription_id: SubscriptionPath, context: AppContext, audit: Audit, principal: Writer
) -> None:
    """Its existing deliveries continue."""
    async with context.database.write() as connection:
        row = owned(await subscriptions.get(connection, subscription_id), principal)
        if await subscriptions.remove(connection, subscription_id):
            await audit.record(connection, deleted(row))


def changed_meanwhile() -> Conflict:
    """Return the error for an object that another request changed between its read and write."""
    return Conflict(
        "It was changed or deleted meanwhile. Read it again, then repeat your change.",
        code="changed_meanwhile",
    )


def _check_order(form: SubscriptionSettings, endpoint: Endpoint) -> None:
    """Raise InvalidInput if order is asked of a polled endpoint, whose events have one anyway."""
    if form.ordered and endpoint.mode == "poll":
        raise InvalidInput.at(
            "/ordered", "a polled endpoint gets all its events in order; leave this out"
        )


async def _verify_new_topics(context: Context, endpoint: Endpoint, events: list[str]) -> None:
    if endpoint.verification == "none":
        return
    async with context.database.read() as connection:
        agreed = await subscriptions.patterns_of_endpoint(connection, endpoint.id)
    topics = [pattern for pattern in events if pattern not in agreed]
    if topics:
        await verify_stored(context, endpoint, topics)


async def _lock_verified(connection: AsyncConnection, verified: Endpoint) -> None:
    """Lock the endpoint until the transaction ends. Raises Conflict if its URL was changed since
    the verification: events must not go to a receiver that has not agreed to get them."""
    locked = found(await endpoints.get(connection, verified.id, lock=True))
    if any(getattr(locked, name) != getattr(verified, name) for name in VERIFIED):
        raise changed_meanwhile()

"""Subscriptions: which event types go to which endpoint."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, Self

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.ext.asyncio import AsyncConnection

from api.access.audit import Audit
from api.access.authentication import Reader, Writer
from api.access.ownership import found, owned
from api.forms.endpoint import Patterns, check_patterns
from api.forms.verification import VERIFIED, verify_stored
from api.http.fields import EndpointId, Input, SubscriptionPath, TenantId, Time
from api.http.merge_patch import MergePatch, patch_of, patched
from api.http.pagination import Listing, PageQuery
from api.http.routing import router
from api.process.context import AppContext, Context
from hookfast.errors import Conflict
from hookfast.events.event_type import parse_event_type
from hookfast.ids import new_id
from hookfast.storage.accounts import tenants
from hookfast.storage.audit.audited import created, deleted, facts, updated
from hookfast.storage.endpoints import endpoints, subscriptions
from hookfast.storage.tables import Endpoint, Subscription

routes = router("Subscriptions")


class SubscriptionForm(Input):
    """What can be set of a subscription, and changed later."""

    events: Annotated[Patterns, Field(min_length=1)]
    payload: Literal["full", "thin", "raw"] = Field(
        "full",
        description="`full` sends the event's data; `thin` its id and the URL to fetch it from; "
        "`raw` the body, content type and headers of the request it came in with, byte for byte "
        "and signed by us, and `full` for an event that came in through no source.",
    )
    active: bool = Field(True, description="Off: events are not sent, now or later.")


class NewSubscription(SubscriptionForm):
    """A new subscription."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "endpoint_id": "ep_019a0b3c5d6e7f8091a2b3c4d5e6f708",
                    "events": ["order.invoice.paid", "order.refund.*"],
                }
            ]
        }
    )

    endpoint_id: EndpointId


class SubscriptionView(BaseModel):
    """Which event types go to an endpoint."""

    id: str
    endpoint_id: str
    tenant_id: str
    events: list[str]
    payload: Literal["full", "thin", "raw"]
    active: bool
    created_at: Time
    updated_at: Time

    @classmethod
    def of(cls, subscription: Subscription) -> Self:
        return cls(**subscription.model_dump())


def new_subscription(
    form: SubscriptionForm, *, endpoint: Endpoint, events: list[str], at: datetime
) -> Subscription:
    """The row for a new subscription to `endpoint`."""
    return Subscription(
        id=new_id("sub", at),
        endpoint_id=endpoint.id,
        tenant_id=endpoint.tenant_id,
        events=events,
        payload=form.payload,
        active=form.active,
        created_at=at,
        updated_at=at,
    )


@routes.post("/subscriptions", status_code=201, summary="Create a subscription")
async def create_subscription(
    form: NewSubscription, context: AppContext, audit: Audit, principal: Writer
) -> SubscriptionView:
    """The endpoint's receiver is asked first about each topic that is new to it; with the
    verification `query`, once for all of them."""
    events = check_patterns(form.events)
    async with context.database.read() as connection:
        endpoint = owned(await endpoints.get(connection, form.endpoint_id), principal)
    await _verify_new_topics(context, endpoint, events)
    async with context.database.write() as connection:
        await _lock_as_asked(connection, endpoint)
        subscription = new_subscription(form, endpoint=endpoint, events=events, at=context.clock())
        await subscriptions.add(connection, subscription)
        await audit.record(connection, created(subscription))
    return SubscriptionView.of(subscription)


@routes.get("/subscriptions", summary="List subscriptions, or who would receive an event")
async def list_subscriptions(
    page: PageQuery,
    context: AppContext,
    principal: Reader,
    tenant_id: TenantId | None = None,
    endpoint_id: EndpointId | None = None,
    matches: Annotated[
        str | None,
        Query(
            max_length=200,
            description="An event type: only active subscriptions that would receive it.",
            examples=["order.invoice.paid"],
        ),
    ] = None,
) -> Listing[SubscriptionView]:
    tenant_id = principal.tenant_for(tenant_id)
    if matches is not None:
        parse_event_type(matches, pointer="matches")
    async with context.database.read() as connection:
        if tenant_id is not None:
            found(await tenants.get(connection, tenant_id))
        if endpoint_id is not None:
            owned(await endpoints.get(connection, endpoint_id), principal)
        rows = await subscriptions.list_page(
            connection,
            tenant_id=tenant_id,
            endpoint_id=endpoint_id,
            matches=matches,
            after=page.after,
            limit=page.rows,
        )
    return page.answer(rows, key=lambda row: row.id, view=SubscriptionView.of)


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
    openapi_extra=patch_of(SubscriptionForm),
)
async def change_subscription(
    subscription_id: SubscriptionPath,
    patch: MergePatch,
    context: AppContext,
    audit: Audit,
    principal: Writer,
) -> SubscriptionView:
    """Topics that are new to the endpoint are verified like those of a new subscription."""
    async with context.database.read() as connection:
        row = owned(await subscriptions.get(connection, subscription_id), principal)
        endpoint = found(await endpoints.get(connection, row.endpoint_id))
    current = SubscriptionForm.model_validate(
        row.model_dump(include={"events", "payload", "active"})
    )
    form = patched(current, patch)
    events = check_patterns(form.events)
    await _verify_new_topics(context, endpoint, events)
    before = facts(row)
    seen, row.updated_at = row.updated_at, context.clock()
    row.events, row.payload, row.active = events, form.payload, form.active
    async with context.database.write() as connection:
        await _lock_as_asked(connection, endpoint)
        if not await subscriptions.change(connection, row, seen=seen):
            raise changed_meanwhile()
        await audit.record(connection, updated(row, before=before))
    return SubscriptionView.of(row)


@routes.delete("/subscriptions/{subscription_id}", status_code=204, summary="Delete a subscription")
async def delete_subscription(
    subscription_id: SubscriptionPath, context: AppContext, audit: Audit, principal: Writer
) -> None:
    """Deliveries it has already caused go on."""
    async with context.database.write() as connection:
        row = owned(await subscriptions.get(connection, subscription_id), principal)
        if await subscriptions.remove(connection, subscription_id):
            await audit.record(connection, deleted(row))


def changed_meanwhile() -> Conflict:
    """The error when something was changed by someone else between reading and writing it."""
    return Conflict(
        "It was changed or deleted meanwhile. Look at it, and send your change again.",
        code="changed_meanwhile",
    )


async def _verify_new_topics(context: Context, endpoint: Endpoint, events: list[str]) -> None:
    if endpoint.verification == "none":
        return
    async with context.database.read() as connection:
        agreed = await subscriptions.patterns_of_endpoint(connection, endpoint.id)
    topics = [pattern for pattern in events if pattern not in agreed]
    if topics:
        await verify_stored(context, endpoint, topics)


async def _lock_as_asked(connection: AsyncConnection, asked: Endpoint) -> None:
    """Keep the endpoint from being changed until the transaction ends. What agreed to the topics
    has to be what gets them: raises Conflict where the URL was changed since."""
    locked = found(await endpoints.get(connection, asked.id, lock=True))
    if any(getattr(locked, name) != getattr(asked, name) for name in VERIFIED):
        raise changed_meanwhile()

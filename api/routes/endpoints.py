"""Endpoints: the URLs that receive."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from pydantic import Field

from api.authentication import Reader, Writer
from api.context import AppContext
from api.endpoint_form import (
    EndpointForm,
    EndpointView,
    NewEndpoint,
    State,
    check_patterns,
    sealed_secret,
)
from api.fields import EndpointPath, TenantId
from api.merge_patch import MergePatch, patch_of, patched
from api.ownership import found, owned
from api.pagination import Listing, PageQuery
from api.routes.subscriptions import (
    SubscriptionForm,
    SubscriptionView,
    changed_meanwhile,
    new_subscription,
)
from api.routing import router
from api.verification import verify
from hookfast.errors import InvalidInput
from hookfast.ids import new_id
from hookfast.signature import generate_secret
from hookfast.storage import endpoints, subscriptions, tenants
from hookfast.storage.tables import Endpoint

routes = router("Endpoints")


class CreatedEndpoint(EndpointView):
    """A new endpoint. `secret` is shown this once; every delivery is signed with it."""

    secret: str = Field(description="`whsec_` and the base64 of the signing key.")
    subscription: SubscriptionView | None = Field(description="Made from `events`.")


@routes.post("/endpoints", status_code=201, summary="Create an endpoint")
async def create_endpoint(
    form: NewEndpoint, context: AppContext, principal: Writer
) -> CreatedEndpoint:
    """Its receiver is asked first whether it wants the events; if it does not agree, the answer is
    422 `verification_failed` and nothing is created."""
    tenant_id = principal.tenant_for(form.tenant_id)
    if tenant_id is None:
        raise InvalidInput.at("/tenant_id", "name the tenant that owns the endpoint")
    columns = form.columns(context.settings)
    events = check_patterns(form.events)
    async with context.database.read() as connection:
        found(await tenants.get(connection, tenant_id))
    await verify(
        context,
        mode=form.verification,
        url=columns["url"],
        tenant_id=tenant_id,
        topics=events,
        allowed_networks=columns["allowed_networks"],
    )
    now = context.clock()
    endpoint_id, secret = new_id("ep", now), generate_secret()
    sealed = context.keyring.seal(secret, context=endpoint_id)
    endpoint = Endpoint(
        id=endpoint_id,
        tenant_id=tenant_id,
        secrets=[sealed_secret(sealed, created_at=now)],
        created_at=now,
        updated_at=now,
        **columns,
    )
    subscription = None
    async with context.database.write() as connection:
        found(await tenants.get(connection, tenant_id, lock=True))
        await endpoints.add(connection, endpoint)
        if events:
            first = SubscriptionForm(events=events)
            subscription = new_subscription(first, endpoint=endpoint, events=events, at=now)
            await subscriptions.add(connection, subscription)
    return CreatedEndpoint.of(
        endpoint,
        secret=secret,
        subscription=None if subscription is None else SubscriptionView.of(subscription),
    )


@routes.get("/endpoints", summary="List endpoints")
async def list_endpoints(
    page: PageQuery,
    context: AppContext,
    principal: Reader,
    tenant_id: TenantId | None = None,
    state: Annotated[State | None, Query(description="Only those in this state.")] = None,
) -> Listing[EndpointView]:
    tenant_id = principal.tenant_for(tenant_id)
    async with context.database.read() as connection:
        if tenant_id is not None:
            found(await tenants.get(connection, tenant_id))
        rows = await endpoints.list_page(
            connection, tenant_id=tenant_id, state=state, after=page.after, limit=page.rows
        )
    return page.answer(rows, key=lambda endpoint: endpoint.id, view=EndpointView.of)


@routes.get("/endpoints/{endpoint_id}", summary="Get an endpoint")
async def get_endpoint(
    endpoint_id: EndpointPath, context: AppContext, principal: Reader
) -> EndpointView:
    async with context.database.read() as connection:
        return EndpointView.of(owned(await endpoints.get(connection, endpoint_id), principal))


@routes.patch(
    "/endpoints/{endpoint_id}",
    summary="Change an endpoint",
    openapi_extra=patch_of(EndpointForm),
)
async def change_endpoint(
    endpoint_id: EndpointPath, patch: MergePatch, context: AppContext, principal: Writer
) -> EndpointView:
    """A new `url`, `verification` or `allowed_networks` is verified first, for every topic the
    endpoint is subscribed to. Deliveries under way use the new settings from their next attempt;
    the retry plan they began with stays theirs."""
    async with context.database.read() as connection:
        endpoint = owned(await endpoints.get(connection, endpoint_id), principal)
        topics = await subscriptions.patterns_of_endpoint(connection, endpoint_id)
    form = patched(EndpointForm.of(endpoint), patch)
    columns = form.columns(context.settings)
    if any(
        columns[name] != getattr(endpoint, name)
        for name in ("url", "verification", "allowed_networks")
    ):
        await verify(
            context,
            mode=form.verification,
            url=columns["url"],
            tenant_id=endpoint.tenant_id,
            topics=topics,
            allowed_networks=columns["allowed_networks"],
        )
    columns["updated_at"] = context.clock()
    async with context.database.write() as connection:
        if not await endpoints.change(
            connection, endpoint_id, seen=endpoint.updated_at, values=columns
        ):
            raise changed_meanwhile()
        return EndpointView.of(found(await endpoints.get(connection, endpoint_id)))


@routes.delete("/endpoints/{endpoint_id}", status_code=204, summary="Delete an endpoint")
async def delete_endpoint(
    endpoint_id: EndpointPath, context: AppContext, principal: Writer
) -> None:
    """Deletes its subscriptions and secrets too. Deliveries under way end undelivered."""
    async with context.database.write() as connection:
        owned(await endpoints.get(connection, endpoint_id, lock=True), principal)
        await endpoints.mark_deleted(connection, endpoint_id, at=context.clock())
        await subscriptions.remove_of_endpoint(connection, endpoint_id)


@routes.post("/endpoints/{endpoint_id}/enable", summary="Enable an endpoint")
async def enable_endpoint(
    endpoint_id: EndpointPath, context: AppContext, principal: Writer
) -> EndpointView:
    return await _set_state(endpoint_id, "enabled", context=context, principal=principal)


@routes.post("/endpoints/{endpoint_id}/disable", summary="Disable an endpoint")
async def disable_endpoint(
    endpoint_id: EndpointPath, context: AppContext, principal: Writer
) -> EndpointView:
    """Events that arrive while it is disabled are recorded as dead letters, never dropped."""
    return await _set_state(endpoint_id, "disabled", context=context, principal=principal)


async def _set_state(
    endpoint_id: str, state: State, *, context: AppContext, principal: Writer
) -> EndpointView:
    reason = None if state == "enabled" else "Disabled by request."
    async with context.database.write() as connection:
        owned(await endpoints.get(connection, endpoint_id, lock=True), principal)
        await endpoints.set_state(
            connection, endpoint_id, state=state, reason=reason, at=context.clock()
        )
        return EndpointView.of(found(await endpoints.get(connection, endpoint_id)))

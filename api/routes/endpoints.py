"""Endpoints: the URLs that receive events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import Query
from pydantic import Field

from api.access.audit import Audit, RequestAudit
from api.access.authentication import Reader, Writer
from api.access.ownership import check_tenant_exists, found, owned
from api.access.quotas import lock_tenant
from api.context.context import AppContext, Context
from api.forms import raised_limits
from api.forms.credentials import (
    access_of_new,
    check_compatible,
    sealed_access,
)
from api.forms.endpoint import EndpointForm, EndpointView, NewEndpoint, State, check_patterns
from api.forms.moved_endpoint import (
    ChangedEndpoint,
    GivenCredentials,
    check_credentials,
)
from api.forms.unmatched import PatternWarning, check_matches
from api.forms.verification import VERIFIED, stored_access, verify
from api.http.fields import EndpointPath, TenantFilter
from api.http.merge_patch import MergePatch, patch_of, patched
from api.http.pagination import Listing, PageQuery
from api.http.routing import router
from api.routes.subscriptions import (
    SubscriptionView,
    changed_meanwhile,
    new_subscription,
)
from hookfast.endpoints.health import Health
from hookfast.endpoints.secrets import (
    Secret,
    has_ed25519,
    new_ed25519_secret,
    open_headers,
    seal_headers,
    seal_secret,
)
from hookfast.errors import Conflict, InvalidInput
from hookfast.ids import new_id
from hookfast.quotas import Resource
from hookfast.resources.subscription import SubscriptionSettings
from hookfast.signing.signature import Profile, generate_secret
from hookfast.storage.accounts import tenants
from hookfast.storage.audit.audited import api_names, created, deleted, facts, updated
from hookfast.storage.deliveries import sent_tests
from hookfast.storage.endpoints import (
    derived_health,
    endpoint_state,
    endpoints,
    subscriptions,
)
from hookfast.storage.feed import feed, poll_positions
from hookfast.storage.keys import signing_keys
from hookfast.storage.tables import Endpoint, Subscription

routes = router("Endpoints")


class CreatedEndpoint(EndpointView):
    """A new endpoint. Only this response shows `secret`, with which every delivery is signed."""

    secret: str | None = Field(
        description="`whsec_` and the base64 of the signing key; null with the mode `poll`."
    )
    subscription: SubscriptionView | None = Field(description="Created from `events`.")
    warnings: list[PatternWarning] = Field(
        description="Patterns among `events` that match no registered event type."
    )


@routes.post("/endpoints", status_code=201, summary="Create an endpoint")
async def create_endpoint(
    form: NewEndpoint, context: AppContext, audit: Audit, principal: Writer
) -> CreatedEndpoint:
    """Before the endpoint is created, its receiver must confirm that it wants the events;
    otherwise the response is 422 `verification_failed`. With the mode `poll` there is no
    verification, and polling starts with the events emitted from now on. If the tenant may not have
    another endpoint, or another subscription, the response is 409 `quota_exceeded`."""
    tenant_id = principal.tenant_for(form.tenant_id)
    if tenant_id is None:
        raise InvalidInput.at("/tenant_id", "is required: the tenant that owns the endpoint")
    columns = form.columns(context.settings)
    events = check_patterns(form.events)
    async with context.database.read() as connection:
        found(await tenants.get(connection, tenant_id))
        warnings = await check_matches(context, connection, form.events, tenant_id=tenant_id)
    polled = form.mode == "poll"
    endpoint_id = new_id("ep", context.clock())
    access = await access_of_new(
        context,
        authentication=form.authentication,
        tls=form.tls,
        url=columns["url"],
        headers=form.headers,
    )
    columns["credentials"] = sealed_access(access, context, endpoint_id=endpoint_id)
    if not polled:
        await verify(
            context,
            mode=form.verification,
            url=columns["url"],
            tenant_id=tenant_id,
            topics=events,
            access=access,
            allowed_networks=columns["allowed_networks"],
        )
        await _ensure_signing_key(context, audit, columns["signatures"])
    now = context.clock()
    secret = None if polled else form.secret or generate_secret()
    columns["headers"] = seal_headers(form.headers, context.keyring, endpoint_id=endpoint_id)
    endpoint = Endpoint(
        id=endpoint_id,
        tenant_id=tenant_id,
        secrets=[],
        created_at=now,
        updated_at=now,
        **columns,
    )
    if secret is not None:
        sealed = seal_secret(secret, context.keyring, endpoint_id=endpoint_id, at=now)
        missing = _missing_keys(context, columns["signatures"], endpoint_id, [])
        endpoint.secrets = [sealed, *missing]
    subscription = None
    async with context.database.write() as connection:
        adding: list[Resource] = ["endpoints", "subscriptions"] if events else ["endpoints"]
        await lock_tenant(connection, context, tenant_id, *adding)
        await endpoints.add(connection, endpoint)
        if polled:
            begin = await feed.end_cursor(connection, now=now)
            await poll_positions.put(connection, endpoint_id, begin, now=now)
        if events:
            first = SubscriptionSettings(events=events)
            subscription = new_subscription(first, endpoint=endpoint, events=events, at=now)
            await subscriptions.add(connection, subscription)
        await audit.record(connection, created(endpoint, **_subscription_members(subscription)))
    return CreatedEndpoint.of(
        endpoint,
        health=Health.HEALTHY,
        secret=secret,
        subscription=None if subscription is None else SubscriptionView.of(subscription),
        warnings=warnings,
    )


@routes.get("/endpoints", summary="List endpoints")
async def list_endpoints(
    page: PageQuery,
    context: AppContext,
    principal: Reader,
    tenant_id: TenantFilter = None,
    state: Annotated[State | None, Query(description="Only endpoints in this state.")] = None,
    health: Annotated[Health | None, Query(description="Only endpoints with this health.")] = None,
) -> Listing[EndpointView]:
    tenant_id = principal.tenant_for(tenant_id)
    async with context.database.read() as connection:
        await check_tenant_exists(connection, tenant_id)
        rows = await endpoints.list_page(
            connection,
            tenant_id=tenant_id,
            state=state,
            health=health,
            after=page.after,
            limit=page.rows,
        )
        health_of = await derived_health.read(connection, rows)
    return page.listing(
        rows, lambda endpoint: EndpointView.of(endpoint, health=health_of[endpoint.id])
    )


@routes.get("/endpoints/{endpoint_id}", summary="Get an endpoint")
async def get_endpoint(
    endpoint_id: EndpointPath, context: AppContext, principal: Reader
) -> EndpointView:
    async with context.database.read() as connection:
        endpoint = owned(await endpoints.get(connection, endpoint_id), principal)
        health = await derived_health.read_one(connection, endpoint)
    return EndpointView.of(endpoint, health=health)


@routes.patch(
    "/endpoints/{endpoint_id}",
    summary="Change an endpoint",
    openapi_extra=patch_of(
        ChangedEndpoint, url="https://example.com/webhooks/v2", rate_limit_per_second=20
    ),
)
async def change_endpoint(
    endpoint_id: EndpointPath,
    patch: MergePatch,
    context: AppContext,
    audit: Audit,
    principal: Writer,
) -> EndpointView:
    """A new `url`, `verification` or `allowed_networks` is verified first, for every subscribed
    topic. Deliveries in progress use the new settings from their next attempt, but keep the retry
    plan that they started with.

    With a `url` of another scheme, host or port, only an operator's key keeps the endpoint's
    `headers`, `authentication` and client certificate. Others send them again in the same patch, or
    null to remove them; otherwise the response is 422 `credentials_required`."""
    async with context.database.read() as connection:
        endpoint = owned(await endpoints.get(connection, endpoint_id), principal)
        topics = await subscriptions.patterns_of_endpoint(connection, endpoint_id)
    # Unchanged headers stay encrypted: a change to other members must not fail if they cannot be
    # decrypted.
    changes_headers = "headers" in patch
    headers = open_headers(
        endpoint.headers if changes_headers else {}, context.keyring, endpoint_id=endpoint_id
    )
    given, patch = GivenCredentials.taken_from(patch)
    form = patched(EndpointForm.of(endpoint, headers=headers), patch)
    if form.mode != endpoint.mode:
        raise Conflict(
            "The mode of an endpoint cannot be changed, because it has deliveries of its mode. "
            "Create another endpoint.",
            code="mode_is_fixed",
        )
    columns = form.columns(context.settings)
    check_credentials(
        endpoint,
        url=columns["url"],
        patch=patch,
        given=given,
        principal=principal,
        now=context.clock(),
    )
    fresh = await given.sealed(
        context, endpoint_id=endpoint_id, url=columns["url"], headers=form.headers
    )
    credentials = [*fresh, *given.kept(endpoint.credentials)]
    check_compatible(credentials, url=columns["url"], headers=form.headers)
    verifies = any(columns[name] != getattr(endpoint, name) for name in VERIFIED)
    if verifies:
        await verify(
            context,
            mode=form.verification,
            url=columns["url"],
            tenant_id=endpoint.tenant_id,
            topics=topics,
            access=stored_access(context, credentials, endpoint_id=endpoint_id),
            allowed_networks=columns["allowed_networks"],
        )
    before, after = facts(endpoint) | {"headers": headers}, api_names(columns)
    if changes_headers:
        columns["headers"] = seal_headers(form.headers, context.keyring, endpoint_id=endpoint_id)
    else:
        del columns["headers"]
    await _ensure_signing_key(context, audit, columns["signatures"])
    columns["updated_at"] = context.clock()
    wake_job = await raised_limits.draft(context, principal, endpoint, columns)
    async with context.database.write() as connection:
        # Read again with a lock: its secrets may have been encrypted again since, which does not
        # count as a change to it.
        locked = owned(await endpoints.get(connection, endpoint_id, lock=True), principal)
        if verifies and topics != await subscriptions.patterns_of_endpoint(connection, endpoint_id):
            raise changed_meanwhile()  # by a subscription with topics not verified for the new URL
        missing = _missing_keys(context, columns["signatures"], endpoint_id, locked.secrets)
        if missing:
            columns["secrets"] = [*missing, *locked.secrets]
        credentials = [*fresh, *given.kept(locked.credentials)]
        if given.names:
            columns["credentials"] = credentials
        if not await endpoints.change(
            connection, endpoint_id, seen=endpoint.updated_at, values=columns
        ):
            raise changed_meanwhile()
        if columns["url"] != endpoint.url:
            # The endpoint may work at its new URL: probe it now.
            await endpoint_state.probe_now(connection, endpoint_id, now=context.clock())
        await raised_limits.apply(connection, context, endpoint, columns, wake_job)
        after |= {"secrets": [*missing, *locked.secrets], "credentials": credentials}
        entry = updated(locked, before=before, after=before | after)
        await audit.record(connection, entry)
        changed = found(await endpoints.get(connection, endpoint_id))
        health = await derived_health.read_one(connection, changed)
    context.workflow_starter.wake()
    return EndpointView.of(changed, health=health)


@routes.delete("/endpoints/{endpoint_id}", status_code=204, summary="Delete an endpoint")
async def delete_endpoint(
    endpoint_id: EndpointPath, context: AppContext, audit: Audit, principal: Writer
) -> None:
    """Also deletes its subscriptions, secrets and tests. Deliveries in progress end undelivered."""
    async with context.database.write() as connection:
        endpoint = owned(await endpoints.get(connection, endpoint_id, lock=True), principal)
        events = await subscriptions.patterns_of_endpoint(connection, endpoint_id)
        await endpoints.mark_deleted(connection, endpoint_id, at=context.clock())
        await subscriptions.remove_of_endpoint(connection, endpoint_id)
        await sent_tests.remove_of_endpoint(connection, endpoint_id)
        await endpoint_state.release_held(connection, endpoint_id, now=context.clock())
        await audit.record(connection, deleted(endpoint, events=events))
    context.workflow_starter.wake()


async def _ensure_signing_key(
    context: Context, audit: RequestAudit, signatures: Sequence[str]
) -> None:
    """Create the service's RSA key before the first endpoint that needs it is stored."""
    if Profile.RSA in signatures:
        await signing_keys.ensure_key(
            context.database, context.keyring, clock=context.clock, actor=audit.actor
        )


def _subscription_members(subscription: Subscription | None) -> dict[str, Any]:
    """Return the members of an endpoint's first subscription for the audit log."""
    if subscription is None:
        return {}
    return {"subscription_id": subscription.id, "events": subscription.events}


def _missing_keys(
    context: Context, signatures: Sequence[str], endpoint_id: str, secrets: Sequence[Secret]
) -> list[Secret]:
    """Return the new ed25519 key of an endpoint that needs one and has none."""
    if Profile.STANDARD_ED25519 not in signatures or has_ed25519(secrets):
        return []
    return [new_ed25519_secret(context.keyring, endpoint_id=endpoint_id, at=context.clock())]

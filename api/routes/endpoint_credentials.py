"""The credentials with which an endpoint's requests are sent: set, replace and remove them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Annotated

from fastapi import Body

from api.access.audit import Audit, RequestAudit
from api.access.authentication import Principal, Writer
from api.access.ownership import found, owned
from api.context.context import AppContext, Context
from api.forms.credentials import (
    AuthenticationForm,
    TlsForm,
    checked_authentication,
    checked_identity,
    has_authorization,
    is_https,
    sealed,
)
from api.forms.endpoint import EndpointView, require_push
from api.http.fields import EndpointPath
from api.http.routing import router
from hookfast.audit import AuditAction
from hookfast.endpoints.credentials import (
    AnyCredential,
    Credential,
    current_credential,
    put_credential,
    without_credential,
)
from hookfast.errors import Conflict, NotFound
from hookfast.storage.audit.audited import done, facts
from hookfast.storage.endpoints import derived_health, endpoint_state, endpoints
from hookfast.storage.tables import Endpoint

routes = router("Endpoint credentials")


@routes.put(
    "/endpoints/{endpoint_id}/authentication",
    summary="Set an endpoint's authentication",
)
async def set_endpoint_authentication(
    endpoint_id: EndpointPath,
    form: Annotated[AuthenticationForm, Body()],
    context: AppContext,
    audit: Audit,
    principal: Writer,
) -> EndpointView:
    """Requests carry the new credential from now on. For `overlap_seconds`, a request that the
    receiver answers with 401 is repeated at once, within the attempt, with the replaced credential,
    so that the receiver can switch at any time. If the endpoint's circuit is open, it is probed."""
    credential = await checked_authentication(form, context)
    return await _put(
        endpoint_id, credential, form.overlap_seconds, context, audit=audit, principal=principal
    )


@routes.delete(
    "/endpoints/{endpoint_id}/authentication",
    status_code=204,
    summary="Remove an endpoint's authentication",
)
async def delete_endpoint_authentication(
    endpoint_id: EndpointPath, context: AppContext, audit: Audit, principal: Writer
) -> None:
    """Also ends a replaced credential that is still tried."""
    await _delete(endpoint_id, context, tls=False, audit=audit, principal=principal)


@routes.put("/endpoints/{endpoint_id}/tls", summary="Set an endpoint's TLS identity")
async def set_endpoint_tls(
    endpoint_id: EndpointPath,
    form: TlsForm,
    context: AppContext,
    audit: Audit,
    principal: Writer,
) -> EndpointView:
    """New connections use the new identity. For `overlap_seconds`, a request that the receiver
    rejects because of it is repeated at once, within the attempt, with the replaced identity."""
    return await _put(
        endpoint_id,
        await checked_identity(form),
        form.overlap_seconds,
        context,
        audit=audit,
        principal=principal,
    )


@routes.delete(
    "/endpoints/{endpoint_id}/tls", status_code=204, summary="Remove an endpoint's TLS identity"
)
async def delete_endpoint_tls(
    endpoint_id: EndpointPath, context: AppContext, audit: Audit, principal: Writer
) -> None:
    """Also ends a replaced identity that is still tried."""
    await _delete(endpoint_id, context, tls=True, audit=audit, principal=principal)


async def _put(
    endpoint_id: str,
    credential: AnyCredential,
    overlap_seconds: int,
    context: Context,
    *,
    audit: RequestAudit,
    principal: Principal,
) -> EndpointView:
    fresh = sealed(credential, context, endpoint_id=endpoint_id)

    def put(endpoint: Endpoint, now: datetime) -> list[Credential]:
        _check_compatible(endpoint, credential)
        return put_credential(
            endpoint.credentials,
            fresh,
            overlap=timedelta(seconds=overlap_seconds),
            now=now,
        )

    action: AuditAction = (
        "endpoint.set_tls" if credential.kind == "tls" else "endpoint.set_authentication"
    )
    return await _change(endpoint_id, put, action, context, audit=audit, principal=principal)


async def _delete(
    endpoint_id: str, context: Context, *, tls: bool, audit: RequestAudit, principal: Principal
) -> None:
    def remove(endpoint: Endpoint, _: datetime) -> list[Credential]:
        if current_credential(endpoint.credentials, tls=tls) is None:
            raise NotFound(f"This endpoint has no {'TLS identity' if tls else 'authentication'}.")
        return without_credential(endpoint.credentials, tls=tls)

    action: AuditAction = "endpoint.delete_tls" if tls else "endpoint.delete_authentication"
    await _change(endpoint_id, remove, action, context, audit=audit, principal=principal)


async def _change(
    endpoint_id: str,
    credentials_of: Callable[[Endpoint, datetime], list[Credential]],
    action: AuditAction,
    context: Context,
    *,
    audit: RequestAudit,
    principal: Principal,
) -> EndpointView:
    """Set the column `credentials`, and probe the endpoint: it may work with the new ones."""
    async with context.database.write() as connection:
        before = require_push(
            owned(await endpoints.get(connection, endpoint_id, lock=True), principal)
        )
        now = context.clock()
        values = {"credentials": credentials_of(before, now), "updated_at": now}
        await endpoints.change(connection, endpoint_id, seen=before.updated_at, values=values)
        await endpoint_state.probe_now(connection, endpoint_id, now=now)
        after = found(await endpoints.get(connection, endpoint_id))
        entry = done(action, after, before=facts(before), after=facts(after))
        await audit.record(connection, entry)
        health = await derived_health.read_one(connection, after)
    context.workflow_starter.wake()
    return EndpointView.of(after, health=health)


def _check_compatible(endpoint: Endpoint, credential: AnyCredential) -> None:
    """Raise Conflict if the endpoint's other settings exclude the credential."""
    if credential.kind == "tls":
        if not is_https(endpoint.url):
            raise Conflict(
                "A TLS identity needs an https URL. Change the endpoint's URL first.",
                code="url_is_not_https",
            )
    elif has_authorization(endpoint.headers):
        raise Conflict(
            "The endpoint has a custom header `Authorization`, which the authentication would "
            "replace. Remove it first: PATCH with "
            '`{"headers": {"Authorization": null}}`.',
            code="has_authorization_header",
        )

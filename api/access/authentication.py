"""Who is calling, and what they may do.

A route states what it needs by the type of a parameter: `principal: Reader`, `Writer`, `Emitter` or
`OperatorOnly`. The rest follows from the principal: `tenant_for` and `check_tenant` make whatever
belongs to another tenant "not found".
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request, Security
from fastapi.security import HTTPBearer

from api.access.client_address import client_site
from api.process.context import Context
from api.process.key_cache import KnownKey, Scope, key_hash
from hookfast.audit import CLI
from hookfast.clock import Clock
from hookfast.errors import Forbidden, Misconfigured, NotFound, Unauthenticated
from hookfast.ids import new_id
from hookfast.settings.settings import OPERATOR_KEY_FORM, Settings
from hookfast.storage.accounts import api_keys
from hookfast.storage.audit import audit_log
from hookfast.storage.audit.audited import created
from hookfast.storage.database.engine import Database
from hookfast.storage.tables import ApiKey

# for the OpenAPI document; `authenticate` does the work
_BEARER = HTTPBearer(
    scheme_name="Bearer",
    bearerFormat="hf_…",
    description="An API key, `hf_…`. Made by `POST /v1/tenants/{tenant_id}/api-keys`; the first "
    "operator key is printed at first start or set by `HOOKFAST_OPERATOR_KEY`.",
    auto_error=False,
)


_NOTHING = "Nothing has this id, or this key may not see it."


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """The caller. `tenant_id` is None for the operator and for emitters of the operator's;
    `by_link` says that it came by a portal link, which `endpoint_id` narrows to one endpoint and
    `key_id` made."""

    scope: Scope
    tenant_id: str | None
    key_id: str
    by_link: bool = False
    endpoint_id: str | None = None

    @property
    def idempotency_scope(self) -> str:
        """Where the caller's idempotency keys are unique."""
        return self.tenant_id or "operator"

    def tenant_for(self, requested: str | None) -> str | None:
        """The tenant a request is about: a tenant's key implies its own. None means all tenants.
        Raises NotFound when another tenant was named."""
        if self.tenant_id is None or requested is None:
            return requested or self.tenant_id
        self.check_tenant(requested)
        return requested

    def check_tenant(self, tenant_id: str | None) -> None:
        """Raises NotFound unless this caller may know of what belongs to `tenant_id` (None: to the
        operator)."""
        if self.tenant_id is not None and self.tenant_id != tenant_id:
            raise NotFound(_NOTHING)

    def endpoint_for(self, requested: str | None) -> str | None:
        """The endpoint whose deliveries a request is about, as `tenant_for`: a caller that has one
        means that, and raises NotFound for another. None means all endpoints."""
        if self.endpoint_id is not None and requested not in (None, self.endpoint_id):
            raise NotFound(_NOTHING)
        return self.endpoint_id or requested


async def authenticate(request: Request) -> None:
    """Find the request's principal. Raises Unauthenticated without a key that works, and
    TooManyRequests after too many of these failures or too many requests with this key."""
    known = await check_key(request)
    request.state.principal = Principal(
        scope=known.scope, tenant_id=known.tenant_id, key_id=known.key_id
    )
    count_request(request, known.key_id)


def count_request(request: Request, name: str) -> None:
    """Count a request of a key, or of what is counted apart from keys, under its name. Raises
    TooManyRequests beyond the rate in force."""
    context: Context = request.app.state.context
    if context.key_rate is not None:
        context.key_rate.count(name, request.scope)


async def check_key(request: Request) -> KnownKey:
    """The request's key. Raises Unauthenticated without one that works, and TooManyRequests after
    too many of these failures."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return await check_given_key(request, key.strip() if scheme.lower() == "bearer" else "")


async def check_given_key(request: Request, key: str) -> KnownKey:
    """The key that came with a request in one way or another; raises as `check_key` does."""
    context: Context = request.app.state.context
    try:
        return await _known_key(request, context, key)
    except Unauthenticated as error:
        raise context.failures.failed(client_site(request), error) from None


async def _known_key(request: Request, context: Context, key: str) -> KnownKey:
    if not key:
        raise Unauthenticated("Send an API key: `Authorization: Bearer hf_…`.")
    known: KnownKey | None = None
    if OPERATOR_KEY_FORM.fullmatch(key):
        if context.keys.has_seen(key):
            known = await context.keys.find(key)
        else:
            async with context.failures.turn(client_site(request)):
                known = await context.keys.find(key)
    if known is None:
        raise Unauthenticated("This API key is unknown, expired or revoked.", code="invalid_key")
    return known


def _allowing(*scopes: Scope) -> Callable[..., Coroutine[Any, Any, Principal]]:
    # the scopes are for the OpenAPI document, where `api.http.openapi` writes them down
    bearer = Security(_BEARER, scopes=scopes)

    async def principal(request: Request, _: Any = bearer) -> Principal:
        caller: Principal = request.state.principal
        if caller.scope not in scopes:
            raise Forbidden(
                f"This needs a key with the scope {' or '.join(scopes)}; yours is {caller.scope}."
            )
        return caller

    return principal


OperatorOnly = Annotated[Principal, Depends(_allowing("operator"))]
"""The operator."""
Reader = Annotated[Principal, Depends(_allowing("operator", "tenant", "tenant:read"))]
"""Whoever may look things up."""
Writer = Annotated[Principal, Depends(_allowing("operator", "tenant"))]
"""Whoever may change things."""
Emitter = Annotated[Principal, Depends(_allowing("operator", "tenant", "emit"))]
"""Whoever may emit events."""


def new_key() -> str:
    """A new API key: 256 random bits."""
    return f"hf_{secrets.token_urlsafe(32)}"


def key_record(key: str, *, scope: Scope, tenant_id: str | None, name: str, clock: Clock) -> ApiKey:
    """The row for a key: its hash, and its first characters to recognise it by."""
    now = clock()
    return ApiKey(
        id=new_id("key", now),
        tenant_id=tenant_id,
        scope=scope,
        name=name,
        hint=f"{key[:7]}…",
        key_sha256=key_hash(key),
        created_at=now,
    )


async def ensure_operator_key(
    database: Database, settings: Settings, *, clock: Clock
) -> str | None:
    """Make sure an operator key exists: HOOKFAST_OPERATOR_KEY where it is set, else any.

    Returns a key made here, which nobody will see again; None when there was nothing to make or the
    setting gave it. Any number of processes may call it at once. Raises Misconfigured when the key
    in the setting was revoked.
    """
    configured = settings.operator_key
    async with database.write() as connection:
        await api_keys.lock_operator_keys(connection)
        if configured is not None:
            key = configured.get_secret_value()
        elif await api_keys.count_operator_keys(connection, at=clock()) == 0:
            key = new_key()
        else:
            return None
        record = key_record(key, scope="operator", tenant_id=None, name="operator", clock=clock)
        if await api_keys.add_if_missing(connection, record):
            await audit_log.record(connection, created(record), actor=CLI, now=record.created_at)
        else:
            stored = await api_keys.by_hash(connection, record.key_sha256)
            if stored is None or stored.revoked_at is not None or stored.scope != "operator":
                raise Misconfigured("HOOKFAST_OPERATOR_KEY was revoked; set another one")
    return key if configured is None else None

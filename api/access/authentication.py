"""Authentication by API key, and the scopes that routes require.

A route states the scopes it allows by the type of a parameter: `principal: Reader`, `Writer`,
`Emitter` or `OperatorOnly`. `Principal.tenant_for` and `Principal.check_tenant` then answer "not
found" for anything that belongs to another tenant.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request, Security
from fastapi.security import HTTPBearer
from starlette.requests import HTTPConnection

from api.access.client_address import client_site
from api.context.context import Context
from api.context.key_cache import KnownKey
from hookfast.errors import Forbidden, NotFound, Unauthenticated
from hookfast.settings.types import OPERATOR_KEY_FORM
from hookfast.storage.accounts.api_keys import Scope


class _Bearer(HTTPBearer):
    """For the OpenAPI document only: `authenticate` checks the key."""

    async def __call__(self, request: HTTPConnection) -> None:
        return None


_BEARER = _Bearer(
    scheme_name="Bearer",
    bearerFormat="hf_…",
    description="An API key, `hf_…`, from `POST /v1/tenants/{tenant_id}/api-keys`; the first "
    "operator key is printed at first start or set by `HOOKFAST_OPERATOR_KEY`.",
    auto_error=False,
)


_NOT_FOUND = "Nothing has this id, or this key may not see it."


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """The authenticated caller. `tenant_id` is None for the operator's own keys. `by_link`: the
    caller signed in with a portal link; then `key_id` is the key that created the link, and
    `endpoint_id` the only endpoint that the link allows, if it is limited to one."""

    scope: Scope
    tenant_id: str | None
    key_id: str
    by_link: bool = False
    endpoint_id: str | None = None

    @property
    def idempotency_scope(self) -> str:
        """The scope within which the caller's idempotency keys are unique."""
        return self.tenant_id or "operator"

    def tenant_for(self, requested: str | None) -> str | None:
        """Return the tenant that a request is about: a tenant's key implies its own tenant. None
        means all tenants. Raises NotFound if another tenant was named."""
        if self.tenant_id is None or requested is None:
            return requested or self.tenant_id
        self.check_tenant(requested)
        return requested

    def check_tenant(self, tenant_id: str | None) -> None:
        """Raise NotFound unless this caller may see objects of `tenant_id` (None: the
        operator's)."""
        if self.tenant_id is not None and self.tenant_id != tenant_id:
            raise NotFound(_NOT_FOUND)

    def endpoint_for(self, requested: str | None) -> str | None:
        """Return the endpoint whose deliveries a request is about: a caller limited to one endpoint
        means that one. None means all endpoints. Raises NotFound if another was named."""
        if self.endpoint_id is not None and requested not in (None, self.endpoint_id):
            raise NotFound(_NOT_FOUND)
        return self.endpoint_id or requested


async def authenticate(request: Request) -> None:
    """Authenticate the request and store its principal in `request.state`. Raises Unauthenticated
    without a valid key, and TooManyRequests after too many such failures or too many requests with
    this key."""
    known = await check_key(request)
    request.state.principal = principal_of(known)
    count_request(request, known.key_id)


def principal_of(key: KnownKey) -> Principal:
    """Return the caller who has this key."""
    return Principal(scope=key.scope, tenant_id=key.tenant_id, key_id=key.key_id)


def count_request(request: Request, name: str) -> None:
    """Count a request against the rate limit of `name`: a key's id, or the name of a session.
    Raises TooManyRequests beyond the configured rate."""
    context: Context = request.app.state.context
    if context.key_rate is not None:
        context.key_rate.count(name, request.scope)


async def check_key(request: Request) -> KnownKey:
    """Return the API key in the request's Authorization header. Raises Unauthenticated without a
    valid key, and TooManyRequests after too many such failures."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return await check_given_key(request, key.strip() if scheme.lower() == "bearer" else "")


async def check_given_key(request: Request, key: str) -> KnownKey:
    """Look up a key that came with the request, in its header or in a form. Raises the errors of
    `check_key`."""
    context: Context = request.app.state.context
    try:
        return await _known_key(request, context, key)
    except Unauthenticated as error:
        raise context.failures.count(client_site(request), error) from None


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


def _require_scope(*scopes: Scope) -> Callable[..., Coroutine[Any, Any, Principal]]:
    """Return a dependency that gives the principal, if it has one of these scopes."""
    # `api.openapi.document` writes these scopes into the OpenAPI document
    bearer = Security(_BEARER, scopes=scopes)

    async def principal(request: Request, _: Any = bearer) -> Principal:
        caller: Principal = request.state.principal
        if caller.scope not in scopes:
            raise Forbidden(
                f"This needs a key with the scope {' or '.join(scopes)}; yours is {caller.scope}."
            )
        return caller

    return principal


OperatorOnly = Annotated[Principal, Depends(_require_scope("operator"))]
"""A caller with an operator key."""
Reader = Annotated[Principal, Depends(_require_scope("operator", "tenant", "tenant:read"))]
"""A caller that may read."""
Writer = Annotated[Principal, Depends(_require_scope("operator", "tenant"))]
"""A caller that may read and change things."""
Emitter = Annotated[Principal, Depends(_require_scope("operator", "tenant", "emit"))]
"""A caller that may emit events."""

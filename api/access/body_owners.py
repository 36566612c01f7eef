"""The owners of bodies in the byte budget: whose share a request's or an answer's bytes are."""

from __future__ import annotations

from starlette.types import Scope

from api.access.client_address import client_site
from hookfast.byte_budget import part_of

WITHOUT_KEY = "callers without a key"


def tenant_owners(tenant_id: str | None) -> tuple[str, ...]:
    """Return the owners for a tenant's caller; None is the operator, who has no share."""
    return () if tenant_id is None else (f"tenant {tenant_id}",)


def stranger_owners(scope: Scope) -> tuple[str, ...]:
    """Return the owners for a caller who is not authenticated yet: all such callers together, and
    the client's site. For an inbound webhook, its source as well."""
    owners = (WITHOUT_KEY, part_of(WITHOUT_KEY, f"site {client_site(scope)}"))
    if not scope["path"].startswith("/in/"):
        return owners
    return (*owners, part_of(WITHOUT_KEY, scope["path"]))


def owners_of(scope: Scope) -> tuple[str, ...]:
    """Return the owners for the caller of a request, authenticated or not."""
    principal = scope["state"].get("principal")
    if principal is None:
        return stranger_owners(scope)
    return tenant_owners(principal.tenant_id)

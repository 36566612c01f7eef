"""Which API key ids a caller may see. A tenant's lists include what the operator did, with its own
key or through portal links, but an operator's key id is not shown to tenants."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy.ext.asyncio import AsyncConnection

from api.access.authentication import Principal
from hookfast.storage.accounts import api_keys


async def visible_key_ids(
    connection: AsyncConnection, principal: Principal, key_ids: Iterable[str | None]
) -> frozenset[str]:
    """Return the key ids that the caller may see: all of them for the operator, its own (revoked or
    not) for a tenant."""
    present = {key_id for key_id in key_ids if key_id is not None}
    if principal.tenant_id is None:
        return frozenset(present)
    return await api_keys.owned_by(connection, present, tenant_id=principal.tenant_id)

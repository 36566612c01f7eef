"""Of which API keys a caller is told the ids. With an operator's key is done what the operator
does, and what is done by the portal links that it made: both are in a tenant's lists, and the key
is not the tenant's to know."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy.ext.asyncio import AsyncConnection

from api.access.authentication import Principal
from hookfast.storage.accounts import api_keys


async def shown_keys(
    connection: AsyncConnection, principal: Principal, key_ids: Iterable[str | None]
) -> frozenset[str]:
    """Those of these keys that the caller may know of: all, or its tenant's, revoked or not."""
    asked = {key_id for key_id in key_ids if key_id is not None}
    if principal.tenant_id is None:
        return frozenset(asked)
    return await api_keys.owned_by(connection, asked, tenant_id=principal.tenant_id)

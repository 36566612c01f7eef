"""Checks that a row exists and is the caller's. Another tenant's row is "not found", as if it never
existed."""

from __future__ import annotations

from typing import Protocol, TypeVar

from sqlalchemy.ext.asyncio import AsyncConnection

from api.access.authentication import Principal
from hookfast.errors import NotFound
from hookfast.storage.accounts import tenants

Row = TypeVar("Row")


class _Owned(Protocol):
    @property
    def tenant_id(self) -> str | None: ...


OwnedRow = TypeVar("OwnedRow", bound=_Owned)


def found(row: Row | None) -> Row:
    """Return the row. Raises NotFound if it is None."""
    if row is None:
        raise NotFound("Nothing has this id, or this key may not see it.")
    return row


async def check_tenant_exists(connection: AsyncConnection, tenant_id: str | None) -> None:
    """Raise NotFound if this tenant does not exist. None, for all tenants, is allowed."""
    if tenant_id is not None:
        found(await tenants.get(connection, tenant_id))


def owned(row: OwnedRow | None, principal: Principal) -> OwnedRow:
    """Return the row if the principal may see its tenant's. Raises NotFound otherwise."""
    row = found(row)
    principal.check_tenant(row.tenant_id)
    return row

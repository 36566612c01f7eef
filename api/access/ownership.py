"""Looking up what a caller may know of: another tenant's is "not found", as if it never existed."""

from __future__ import annotations

from typing import Protocol, TypeVar

from api.access.authentication import Principal
from hookfast.errors import NotFound

Row = TypeVar("Row")


class _Owned(Protocol):
    tenant_id: str


OwnedRow = TypeVar("OwnedRow", bound=_Owned)


def found(row: Row | None) -> Row:
    """The row. Raises NotFound when there is none."""
    if row is None:
        raise NotFound("Nothing has this id, or this key may not see it.")
    return row


def owned(row: OwnedRow | None, principal: Principal) -> OwnedRow:
    """The row, when it belongs to the principal's tenant. Raises NotFound otherwise."""
    row = found(row)
    principal.check_tenant(row.tenant_id)
    return row

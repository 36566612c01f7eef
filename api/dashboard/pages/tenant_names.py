"""The names of the tenants that a page shows, looked up together. `parts.tenant` shows them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from api.site.page import View
from hookfast.storage.accounts import tenants


class _Owned(Protocol):
    @property
    def tenant_id(self) -> str | None: ...


async def load(view: View, *tenant_ids: str | None) -> None:
    """Load the names of these tenants for the template. Deleted tenants have none."""
    ids = {each for each in tenant_ids if each is not None}
    if ids:
        async with view.context.database.read() as connection:
            view.tenant_names = await tenants.names_of(connection, ids)


async def load_owners(view: View, listed: Iterable[_Owned]) -> None:
    """Load the names of the tenants that own what a list shows. It says whose each row is if the
    visitor sees several tenants, also while all rows are of one."""
    await load(view, *(each.tenant_id for each in listed))
    if view.is_operator and view.tenant_id is None:
        async with view.context.database.read() as connection:
            view.has_several_tenants = await tenants.are_several(connection)

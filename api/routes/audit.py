"""The audit log: who changed what, and when."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any, Self

from fastapi import Query
from pydantic import BaseModel, Field

from api.access.authentication import Principal, Reader
from api.access.visible_keys import visible_key_ids
from api.context.context import AppContext
from api.http.fields import TenantFilter, Time, TimeInput
from api.http.pagination import Listing, PageQuery
from api.http.routing import router
from hookfast.audit import AuditAction
from hookfast.ids import id_pattern
from hookfast.storage.audit import audit_log
from hookfast.storage.audit.audit_log import AuditFilter
from hookfast.storage.tables import AuditEntry

routes = router("Audit log")


class AuditView(BaseModel):
    """One change."""

    id: str = Field(description="Id of the entry, `aud_…`.")
    at: Time = Field(description="When the change was committed.")
    tenant_id: str | None = Field(description="The tenant; null: the operator's own.")
    actor: str = Field(
        description="The scope of the API key that was used; `portal`: a person with a portal "
        "link; `system`: Hookfast itself; `cli`: a command on the database."
    )
    key_id: str | None = Field(
        description="Id of the API key; for a portal link, of the key that created it. "
        "A tenant sees only its own keys."
    )
    # not the enumeration: during an upgrade, a newer version may log actions unknown to this one
    action: str = Field(description="The kind of change, e.g. `endpoint.update`.")
    resource: str = Field(description="The kind of object that was changed.")
    resource_id: str = Field(description="Id of that object; the name of an event type.")
    changes: dict[str, dict[str, Any]] = Field(
        description="For each changed member, its value `before` and `after`; for a new object "
        "only `after`, for a deleted one only `before`. Secrets, values of headers and queries of "
        "URLs are masked; very long values are replaced by their length and SHA-256."
    )
    request_id: str | None = Field(description="`X-Request-Id` of the request.")
    client_address: str | None = Field(
        description="The address that sent the request. A tenant does not see the operator's."
    )

    @classmethod
    def of(cls, entry: AuditEntry, *, principal: Principal, keys: Collection[str]) -> Self:
        """Return the entry as this caller may see it; `keys` are the key ids visible to it."""
        shown = entry.model_dump()
        # tenants see what the operator did, but not its keys and its network
        if entry.key_id not in keys:
            shown["key_id"] = None
        if principal.tenant_id is not None and entry.actor == "operator":
            shown["client_address"] = None
        return cls(**shown)


@routes.get("/audit", summary="List audit log entries")
async def list_audit(
    page: PageQuery,
    context: AppContext,
    principal: Reader,
    resource_id: Annotated[
        str | None, Query(max_length=200, description="The id or name of the changed object.")
    ] = None,
    action: Annotated[AuditAction | None, Query(description="The kind of change.")] = None,
    key_id: Annotated[
        str | None, Query(pattern=id_pattern("key"), description="Made with this API key.")
    ] = None,
    tenant_id: TenantFilter = None,
    since: Annotated[TimeInput | None, Query(description="Made at this time or later.")] = None,
    until: Annotated[TimeInput | None, Query(description="Made before this time.")] = None,
) -> Listing[AuditView]:
    """Every change made through this API, by commands on the database, and by Hookfast itself when
    it disables an endpoint. Emitted events are not changes; `GET /v1/events` lists them. A tenant's
    key sees all changes to its tenant, no matter who made them. All given filters must match."""
    tenant_id = principal.tenant_for(tenant_id)
    chosen = AuditFilter(
        tenant_id=tenant_id,
        resource_id=resource_id,
        key_id=key_id,
        action=action,
        since=since,
        until=until,
    )
    async with context.database.read() as connection:
        rows: list[AuditEntry] = []
        # otherwise a tenant could find out what an operator's key did
        if key_id is None or await visible_key_ids(connection, principal, [key_id]):
            rows = await audit_log.list_page(connection, chosen, after=page.after, limit=page.rows)
        keys = await visible_key_ids(connection, principal, [entry.key_id for entry in rows])
    return page.listing(rows, lambda entry: AuditView.of(entry, principal=principal, keys=keys))

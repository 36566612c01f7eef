"""The audit log: who changed what, and when."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any, Self

from fastapi import Query
from pydantic import BaseModel, Field

from api.access.authentication import Principal, Reader
from api.access.visible_keys import shown_keys
from api.http.fields import TenantId, Time, TimeInput
from api.http.pagination import Listing, PageQuery
from api.http.routing import router
from api.process.context import AppContext
from hookfast.audit import AuditAction
from hookfast.ids import id_pattern
from hookfast.storage.audit import audit_log
from hookfast.storage.audit.audit_log import AuditFilter
from hookfast.storage.tables import AuditEntry

routes = router("Audit log")


class AuditView(BaseModel):
    """One change."""

    id: str
    at: Time
    tenant_id: str | None = Field(description="Whose it is; null: only the operator's.")
    actor: str = Field(
        description="The scope of the API key that was used; `portal`: somebody who came by a "
        "portal link; `system`: Hookfast by itself; `cli`: a command on the database."
    )
    key_id: str | None = Field(
        description="The API key, or the one that made the portal link. A tenant sees its own keys "
        "only."
    )
    # not the enumeration: while versions are mixed, a newer one may log what this one does not know
    action: str = Field(description="What was done, e.g. `endpoint.update`.")
    resource: str = Field(description="What kind of thing was changed.")
    resource_id: str
    changes: dict[str, dict[str, Any]] = Field(
        description="By member, what it was (`before`) and what it is (`after`); of a new thing "
        "only `after`, of a deleted one only `before`. Secrets, the values of headers and the "
        "queries of URLs are masked; very long values are told by their length and SHA-256."
    )
    request_id: str | None = Field(description="`X-Request-Id` of the request.")
    client_address: str | None = Field(
        description="Where the request came from. A tenant does not see where the operator's did."
    )

    @classmethod
    def of(cls, entry: AuditEntry, *, principal: Principal, keys: Collection[str]) -> Self:
        """What this caller sees of it, who may know of these keys."""
        shown = entry.model_dump()
        # what the operator did is the tenant's to know; its keys and its network are not
        if entry.key_id not in keys:
            shown["key_id"] = None
        if principal.tenant_id is not None and entry.actor == "operator":
            shown["client_address"] = None
        return cls(**shown)


@routes.get("/audit", summary="List changes")
async def list_audit(
    page: PageQuery,
    context: AppContext,
    principal: Reader,
    resource_id: Annotated[
        str | None, Query(max_length=200, description="Of this thing: an id, or a name.")
    ] = None,
    action: Annotated[AuditAction | None, Query(description="Of this kind.")] = None,
    key_id: Annotated[
        str | None, Query(pattern=id_pattern("key"), description="Made with this API key.")
    ] = None,
    tenant_id: TenantId | None = None,
    since: Annotated[TimeInput | None, Query(description="Made then or later.")] = None,
    until: Annotated[TimeInput | None, Query(description="Made before then.")] = None,
) -> Listing[AuditView]:
    """Every change that was made through this API, by commands on the database, and by Hookfast
    itself where it disables an endpoint. Emitted events are not changes; `GET /v1/events` lists
    them. A tenant's key sees what was done to its tenant, by whomever. Filters add up."""
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
        # or a tenant could find out what a key did that it must not know of
        if key_id is None or await shown_keys(connection, principal, [key_id]):
            rows = await audit_log.list_page(connection, chosen, after=page.after, limit=page.rows)
        keys = await shown_keys(connection, principal, [entry.key_id for entry in rows])
    return page.answer(
        rows,
        key=lambda entry: entry.id,
        view=lambda entry: AuditView.of(entry, principal=principal, keys=keys),
    )

"""Sources: providers whose webhooks are received."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, Field

from api.access.audit import Audit
from api.access.authentication import Reader, Writer
from api.access.ownership import check_tenant_exists, found, owned
from api.access.quotas import lock_tenant
from api.context.context import AppContext, Context
from api.forms.source import NewSource, SourceForm, SourceView, checked_secrets
from api.http.fields import SourcePath, TenantFilter, Time
from api.http.merge_patch import MergePatch, patch_of, patched
from api.http.pagination import Listing, PageQuery
from api.http.routing import router
from hookfast.errors import InvalidInput
from hookfast.ids import new_id
from hookfast.inbox import provider
from hookfast.inbox.source_secrets import new_secret, sealed_secrets
from hookfast.storage.audit.audited import created, deleted, facts, updated
from hookfast.storage.inbox import source_stats, sources
from hookfast.storage.tables import Source, SourceStats

routes = router("Sources")


class CreatedSource(SourceView):
    """A new source."""

    secret: str | None = Field(
        description="The generated secret, which only this response shows; null if you gave one."
    )


class SourceStatsView(BaseModel):
    """The results of a source's requests since it was created."""

    source_id: str
    accepted: int = Field(description="Stored, and emitted as events.")
    duplicates: int = Field(description="Received again with a known key.")
    conflicts: int = Field(description="Duplicates that had a different body.")
    suppressed: int = Field(description="Of a business fact that was emitted already.")
    failed: int = Field(description="Stored, but not matching their event type's schema.")
    rejected: int = Field(
        description="Rejected, except with 404 and 503; counted within some seconds."
    )
    last_accepted_at: Time | None = Field(description="The newest accepted request; null: none.")
    last_rejected_at: Time | None = Field(description="The newest rejected request; null: none.")
    last_error: str | None = Field(description="Why the last request was rejected.")

    @classmethod
    def of(cls, stats: SourceStats) -> SourceStatsView:
        return cls(**stats.model_dump())


def view(source: Source, context: Context) -> SourceView:
    """Return the view of a stored source."""
    return SourceView.of(source, public_url=context.settings.resolved_public_url)


@routes.post("/sources", status_code=201, summary="Create a source")
async def create_source(
    form: NewSource, context: AppContext, audit: Audit, principal: Writer
) -> CreatedSource:
    """Configure `url` and the secret at the provider. Event types need not be registered first: the
    first request of each type registers it. If the tenant may not have another source, the response
    is 409 `quota_exceeded`."""
    tenant_id = principal.tenant_for(form.tenant_id)
    if tenant_id is None:
        raise InvalidInput.at("/tenant_id", "is required: the tenant that owns the source")
    columns = form.columns(form.provider, parts=context.settings.event_type_parts)
    bound = provider(form.provider, form.options)
    given = form.secrets
    if given is None and not bound.lets_choose_secret:
        raise InvalidInput.at(
            "/secrets", f"is required: {bound.name} creates the secret", code="invalid_secret"
        )
    generated = new_secret() if given is None else None
    texts = checked_secrets(bound, [generated] if generated else given or [], pointer="/secrets")
    now = context.clock()
    source_id = new_id("src", now)
    source = Source(
        id=source_id,
        tenant_id=tenant_id,
        provider=form.provider,
        secrets=sealed_secrets(texts, context.keyring, source_id=source_id, at=now),
        created_at=now,
        updated_at=now,
        **columns,
    )
    async with context.database.write() as connection:
        await lock_tenant(connection, context, tenant_id, "sources")
        await sources.add(connection, source)
        await audit.record(connection, created(source))
    return CreatedSource.of(
        source, public_url=context.settings.resolved_public_url, secret=generated
    )


@routes.get("/sources", summary="List sources")
async def list_sources(
    page: PageQuery,
    context: AppContext,
    principal: Reader,
    tenant_id: TenantFilter = None,
    provider: Annotated[
        str | None, Query(max_length=50, description="Only sources of this provider.")
    ] = None,
) -> Listing[SourceView]:
    tenant_id = principal.tenant_for(tenant_id)
    async with context.database.read() as connection:
        await check_tenant_exists(connection, tenant_id)
        rows = await sources.list_page(
            connection,
            tenant_id=tenant_id,
            provider=provider,
            after=page.after,
            limit=page.rows,
        )
    return page.listing(rows, lambda row: view(row, context))


@routes.get("/sources/{source_id}", summary="Get a source")
async def get_source(source_id: SourcePath, context: AppContext, principal: Reader) -> SourceView:
    async with context.database.read() as connection:
        return view(owned(await sources.get(connection, source_id), principal), context)


@routes.patch(
    "/sources/{source_id}",
    summary="Change a source",
    openapi_extra=patch_of(SourceForm, active=False),
)
async def change_source(
    source_id: SourcePath,
    patch: MergePatch,
    context: AppContext,
    audit: Audit,
    principal: Writer,
) -> SourceView:
    """The change takes effect at once in this process, and within two seconds in others."""
    async with context.database.write() as connection:
        source = owned(await sources.get(connection, source_id, lock=True), principal)
        form = patched(SourceForm.of(source), patch)
        before = facts(source)
        # a source keeps the names that it has if the setting changes
        names_kept = (form.event_types, form.options) == (source.event_types, source.options)
        parts = None if names_kept else context.settings.event_type_parts
        values = form.columns(source.provider, parts=parts) | {"updated_at": context.clock()}
        await sources.change(connection, source_id, values)
        source = found(await sources.get(connection, source_id))
        await audit.record(connection, updated(source, before=before))
    context.sources.forget(source_id)
    return view(source, context)


@routes.delete("/sources/{source_id}", status_code=204, summary="Delete a source")
async def delete_source(
    source_id: SourcePath, context: AppContext, audit: Audit, principal: Writer
) -> None:
    """Also deletes its secrets; requests to it get 404. Its inbox entries stay."""
    async with context.database.write() as connection:
        source = owned(await sources.get(connection, source_id, lock=True), principal)
        await sources.mark_deleted(connection, source_id, at=context.clock())
        await audit.record(connection, deleted(source))
    context.sources.forget(source_id)


@routes.get("/sources/{source_id}/stats", summary="Get a source's statistics")
async def get_source_stats(
    source_id: SourcePath, context: AppContext, principal: Reader
) -> SourceStatsView:
    async with context.database.read() as connection:
        owned(await sources.get(connection, source_id), principal)
        return SourceStatsView.of(found(await source_stats.get(connection, source_id)))

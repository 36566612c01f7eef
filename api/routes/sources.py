"""Sources: providers whose webhooks come in."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, Field

from api.access.audit import Audit
from api.access.authentication import Reader, Writer
from api.access.ownership import found, owned
from api.forms.source import NewSource, SourceForm, SourceView, checked_secrets
from api.http.fields import SourcePath, TenantId, Time
from api.http.merge_patch import MergePatch, patch_of, patched
from api.http.pagination import Listing, PageQuery
from api.http.routing import router
from api.process.context import AppContext, Context
from hookfast.errors import Conflict, InvalidInput
from hookfast.ids import new_id
from hookfast.inbox import provider
from hookfast.inbox.source_secrets import new_secret, sealed_secrets
from hookfast.storage.accounts import tenants
from hookfast.storage.audit.audited import created, deleted, facts, updated
from hookfast.storage.inbox import source_stats, sources
from hookfast.storage.tables import Source, SourceStats

routes = router("Sources")

MAX_SOURCES = 100
"""Of one tenant: each may register event types in the catalogue that belongs to all."""


class CreatedSource(SourceView):
    """A new source."""

    secret: str | None = Field(
        description="The secret that was made for it, shown this once; null where one was given."
    )


class SourceStatsView(BaseModel):
    """What became of a source's requests since it was made."""

    source_id: str
    accepted: int = Field(description="Taken in as events.")
    duplicates: int = Field(description="Came again, under a key that was known.")
    conflicts: int = Field(description="Of the duplicates, those that came with other bytes.")
    suppressed: int = Field(description="Told of a business fact that was emitted already.")
    failed: int = Field(description="Taken in, and refused by their event type's schema.")
    rejected: int = Field(description="Refused, but for 404 and 503; counted within some seconds.")
    last_accepted_at: Time | None
    last_rejected_at: Time | None
    last_error: str | None = Field(description="Why the last one was refused.")

    @classmethod
    def of(cls, stats: SourceStats) -> SourceStatsView:
        return cls(**stats.model_dump())


def view(source: Source, context: Context) -> SourceView:
    """What is shown of a stored source."""
    return SourceView.of(source, public_url=context.settings.resolved_public_url)


@routes.post("/sources", status_code=201, summary="Create a source")
async def create_source(
    form: NewSource, context: AppContext, audit: Audit, principal: Writer
) -> CreatedSource:
    """Set `url` and the secret at the provider. Event types that come in need not be registered
    before: the first request of each registers it."""
    tenant_id = principal.tenant_for(form.tenant_id)
    if tenant_id is None:
        raise InvalidInput.at("/tenant_id", "name the tenant that owns the source")
    columns = form.columns(form.provider)
    bound = provider(form.provider, form.options)
    given = form.secrets
    if given is None and not bound.lets_choose_secret:
        raise InvalidInput.at(
            "/secrets", f"{bound.name} makes the secret itself; give it", code="invalid_secret"
        )
    made = new_secret() if given is None else None
    texts = checked_secrets(bound, [made] if made else given or [], pointer="/secrets")
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
        found(await tenants.get(connection, tenant_id, lock=True))
        if await sources.count_of_tenant(connection, tenant_id) >= MAX_SOURCES:
            raise Conflict(
                f"A tenant has at most {MAX_SOURCES} sources; delete one.", code="too_many_sources"
            )
        await sources.add(connection, source)
        await audit.record(connection, created(source))
    return CreatedSource.of(source, public_url=context.settings.resolved_public_url, secret=made)


@routes.get("/sources", summary="List sources")
async def list_sources(
    page: PageQuery,
    context: AppContext,
    principal: Reader,
    tenant_id: TenantId | None = None,
    provider: Annotated[
        str | None, Query(max_length=50, description="Only this provider's.")
    ] = None,
) -> Listing[SourceView]:
    tenant_id = principal.tenant_for(tenant_id)
    async with context.database.read() as connection:
        if tenant_id is not None:
            found(await tenants.get(connection, tenant_id))
        rows = await sources.list_page(
            connection,
            tenant_id=tenant_id,
            provider=provider,
            after=page.after,
            limit=page.rows,
        )
    return page.answer(rows, key=lambda row: row.id, view=lambda row: view(row, context))


@routes.get("/sources/{source_id}", summary="Get a source")
async def get_source(source_id: SourcePath, context: AppContext, principal: Reader) -> SourceView:
    async with context.database.read() as connection:
        return view(owned(await sources.get(connection, source_id), principal), context)


@routes.patch("/sources/{source_id}", summary="Change a source", openapi_extra=patch_of(SourceForm))
async def change_source(
    source_id: SourcePath,
    patch: MergePatch,
    context: AppContext,
    audit: Audit,
    principal: Writer,
) -> SourceView:
    """In force at once here, and within two seconds in other processes."""
    async with context.database.write() as connection:
        source = owned(await sources.get(connection, source_id, lock=True), principal)
        form = patched(SourceForm.of(source), patch)
        before = facts(source)
        values = form.columns(source.provider) | {"updated_at": context.clock()}
        await sources.change(connection, source_id, values)
        source = found(await sources.get(connection, source_id))
        await audit.record(connection, updated(source, before=before))
    context.sources.forget(source_id)
    return view(source, context)


@routes.delete("/sources/{source_id}", status_code=204, summary="Delete a source")
async def delete_source(
    source_id: SourcePath, context: AppContext, audit: Audit, principal: Writer
) -> None:
    """Deletes its secrets too; requests get 404. What came in stays in the inbox."""
    async with context.database.write() as connection:
        source = owned(await sources.get(connection, source_id, lock=True), principal)
        await sources.mark_deleted(connection, source_id, at=context.clock())
        await audit.record(connection, deleted(source))
    context.sources.forget(source_id)


@routes.get("/sources/{source_id}/stats", summary="Count what came to a source")
async def get_source_stats(
    source_id: SourcePath, context: AppContext, principal: Reader
) -> SourceStatsView:
    async with context.database.read() as connection:
        owned(await sources.get(connection, source_id), principal)
        return SourceStatsView.of(found(await source_stats.get(connection, source_id)))

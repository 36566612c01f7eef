"""The sources: what came through each, a form for a new one, and its settings."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Response

from api.access.audit import Audit
from api.access.authentication import Reader, Writer
from api.answers.problems import problem_of
from api.dashboard.pages import source_fields
from api.dashboard.site.form import check_unchanged, faults, filled, seen
from api.dashboard.site.page import PageView, View
from api.dashboard.site.page_route import page_router
from api.forms.source import NewSource, SourceView
from api.http.fields import SourcePath
from api.http.pagination import Page, PageQuery
from api.process.context import AppContext
from api.routes.inbox import list_inbox
from api.routes.sources import (
    change_source,
    create_source,
    get_source,
    get_source_stats,
    list_sources,
)
from hookfast.errors import Conflict, HookfastError, InvalidInput, NotFound
from hookfast.inbox.samples import sample_names
from hookfast.storage.inbox import source_stats

routes = page_router()

_RECENT = Page(limit=10, after=None)


@routes.get("/sources")
async def sources_page(
    view: PageView,
    page: PageQuery,
    context: AppContext,
    principal: Reader,
    provider: Annotated[str | None, Query(max_length=50)] = None,
) -> Response:
    """Sources, the newest first."""
    listing = await list_sources(
        page, context, principal, tenant_id=view.tenant_id, provider=provider
    )
    async with context.database.read() as connection:
        stats = await source_stats.of_sources(connection, [each.id for each in listing.data])
    return view.render(
        "sources.html",
        listing=listing,
        stats=stats,
        provider=provider,
        providers=source_fields.NAMES,
    )


@routes.get("/sources/new")
async def new_source_page(view: PageView, _: Writer) -> Response:
    """The form for a new one."""
    return _new(view, source_fields.blank())


@routes.post("/sources/new")
async def add_source(
    view: PageView, context: AppContext, audit: Audit, principal: Writer
) -> Response:
    """A new one. A secret that is made for it is in the answer, and nowhere else."""
    secrets = view.form.lines("secrets")
    try:
        members = source_fields.members_of(view.form) | {
            "tenant_id": view.form.text("tenant_id") or view.tenant_id,
            "provider": view.form.get("provider", ""),
            "secrets": secrets or None,
        }
        made = await create_source(filled(NewSource, members), context, audit, principal)
    except NotFound:
        return _refused(view, InvalidInput.at("/tenant_id", "there is no such tenant"))
    except (InvalidInput, Conflict) as error:
        return _refused(view, error)
    view.result_at = f"/dashboard/sources/{made.id}"
    return view.render("source_secret.html", source=made, secret=made.secret, rotated=False)


@routes.get("/sources/{source_id}")
async def source_page(
    source_id: SourcePath, view: PageView, context: AppContext, principal: Reader
) -> Response:
    """One source: what to set at the provider, and what came."""
    source = await get_source(source_id, context, principal)
    return view.render(
        "source.html",
        source=source,
        sample=sample_names(source.provider)[0],
        stats=await get_source_stats(source_id, context, principal),
        recent=(await list_inbox(_RECENT, context, principal, source_id=source_id)).data,
    )


@routes.get("/sources/{source_id}/settings")
async def settings_page(
    source_id: SourcePath, view: PageView, context: AppContext, principal: Writer
) -> Response:
    """Its settings."""
    source = await get_source(source_id, context, principal)
    return _settings(view, source, source_fields.fields_of(source))


@routes.post("/sources/{source_id}/settings")
async def change_settings(
    source_id: SourcePath, view: PageView, context: AppContext, audit: Audit, principal: Writer
) -> Response:
    """Change them."""
    source = await get_source(source_id, context, principal)
    try:
        check_unchanged(view.form, source.updated_at)
        patch = source_fields.patch(source_fields.members_of(view.form), source)
        if patch:
            await change_source(source_id, patch, context, audit, principal)
    except (InvalidInput, Conflict) as error:
        sent = source_fields.fields_sent(view.form)
        return _settings(view, source, sent, refused=error)
    told = "The settings are saved." if patch else "Nothing changed."
    return view.go(f"/dashboard/sources/{source_id}", told)


def _refused(view: View, error: HookfastError) -> Response:
    sent = source_fields.fields_sent(view.form) | {"tenant_id": view.form.text("tenant_id")}
    return _new(view, sent, refused=error)


def _new(view: View, fields: dict[str, Any], *, refused: HookfastError | None = None) -> Response:
    return view.render(
        "source_new.html",
        status=200 if refused is None else problem_of(refused).status,
        fields={"tenant_id": None} | fields,
        errors=() if refused is None else faults(refused),
        providers=source_fields.NAMES,
        chooses=source_fields.CHOOSES,
    )


def _settings(
    view: View,
    source: SourceView,
    fields: dict[str, Any],
    *,
    refused: HookfastError | None = None,
) -> Response:
    return view.render(
        "source_settings.html",
        status=200 if refused is None else problem_of(refused).status,
        source=source,
        seen=seen(source.updated_at),
        fields=fields,
        errors=() if refused is None else faults(refused),
    )

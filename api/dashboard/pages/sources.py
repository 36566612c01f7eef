"""The sources: their list with counts, the form for a new one, one source, and its settings."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import Depends, Query, Response

from api.access.audit import Audit
from api.access.authentication import Reader, Writer
from api.dashboard.pages import tenant_names
from api.dashboard.site import DASHBOARD
from api.forms.source import NewSource, SourceView
from api.http.fields import TenantId
from api.http.pagination import Page, PageQuery
from api.routes.inbox import list_inbox
from api.routes.sources import (
    CreatedSource,
    change_source,
    create_source,
    get_source,
    get_source_stats,
    list_sources,
)
from api.site import choices
from api.site.form import changed_members, check_unchanged, seen_version, validated
from api.site.page import PageView, View
from api.site.page_route import PageRouter
from api.site.settings_form import SettingsForm, members
from hookfast.errors import Conflict, HookfastError, InvalidInput, NotFound
from hookfast.inbox import PROVIDERS
from hookfast.inbox.samples import sample_names
from hookfast.resources.setting import Dashboard, settings_of
from hookfast.resources.source import SourceSettings
from hookfast.storage.inbox import source_stats

routes = PageRouter(DASHBOARD)

StoredSource = Annotated[SourceView, Depends(get_source)]

SHOWN: Final = SettingsForm(settings_of(SourceSettings, Dashboard))
TITLES: Final = {name: each.title for name, each in PROVIDERS.items()}
"""The providers' names for people."""
GENERATES_SECRET: Final = tuple(name for name, each in PROVIDERS.items() if each.lets_choose_secret)
"""The providers that accept any secret, so that Hookfast can generate it."""
_RECENT = Page(limit=10, after=None)


@routes.get("/sources")
async def sources_page(
    view: PageView,
    page: PageQuery,
    principal: Reader,
    provider: Annotated[str | None, Query(max_length=50)] = None,
    tenant_id: TenantId | None = None,
) -> Response:
    """List the sources, newest first."""
    listing = await list_sources(
        page, view.context, principal, tenant_id=tenant_id or view.tenant_id, provider=provider
    )
    async with view.context.database.read() as connection:
        stats = await source_stats.list_by_source(connection, [each.id for each in listing.data])
    await tenant_names.load_owners(view, listing.data)
    return view.render(
        "sources.html",
        listing=listing,
        stats=stats,
        provider=provider,
        tenant_id=tenant_id,
        providers=TITLES,
    )


@routes.get("/sources/new")
async def new_source_page(view: PageView, _: Writer) -> Response:
    """Show the form for a new source."""
    return await _new_form(view, SHOWN.new_fields() | {"provider": "github"})


@routes.post("/sources/new")
async def add_source(view: PageView, audit: Audit, principal: Writer) -> Response:
    """Create a source. Only this answer shows a generated secret."""
    try:
        tenant = await choices.picked_in_form(view, "tenant_id", "tenant")
        given = members(view.form, SHOWN.settings.values()) | {
            "tenant_id": tenant or view.tenant_id,
            "provider": view.form.get("provider", ""),
            "secrets": view.form.lines("secrets") or None,
        }
        created = await create_source(validated(NewSource, given), view.context, audit, principal)
    except (NotFound, InvalidInput, Conflict) as error:
        if isinstance(error, NotFound):
            error = InvalidInput.at("/tenant_id", "there is no such tenant")
        typed = SHOWN.submitted_fields(view.form)
        typed |= {name: view.form.get(name, "") for name in ("tenant_id", "provider")}
        return await _new_form(view, typed, error)
    return secret_page(created, view, rotated=False)


def secret_page(source: CreatedSource, view: View, *, rotated: bool) -> Response:
    """Render the only page that shows a generated secret."""
    view.result_path = f"/dashboard/sources/{source.id}"
    provider = TITLES[source.provider]
    return view.render("source_secret.html", source=source, provider=provider, rotated=rotated)


@routes.get("/sources/{source_id}")
async def source_page(source: StoredSource, view: PageView, principal: Reader) -> Response:
    """Show a source: the URL to set at the provider, its counts and its newest requests."""
    await tenant_names.load(view, source.tenant_id)
    return view.render(
        "source.html",
        source=source,
        groups=SHOWN.groups.values(),
        provider=TITLES[source.provider],
        sample=sample_names(source.provider)[0],
        stats=await get_source_stats(source.id, view.context, principal),
        recent=(await list_inbox(_RECENT, view.context, principal, source_id=source.id)).data,
    )


@routes.get("/sources/{source_id}/settings")
async def settings_page(view: PageView, _: Writer, source: StoredSource) -> Response:
    """Show the form with the settings of a source."""
    return _settings_form(view, source, SHOWN.stored_fields(source))


@routes.post("/sources/{source_id}/settings")
async def change_settings(
    source: StoredSource, view: PageView, audit: Audit, principal: Writer
) -> Response:
    """Save the settings of a source that differ from the stored ones."""
    try:
        check_unchanged(view.form, source.updated_at)
        given = members(view.form, SHOWN.settings.values())
        patch = changed_members(given, source)
        if patch:
            await change_source(source.id, patch, view.context, audit, principal)
    except (InvalidInput, Conflict) as error:
        return _settings_form(view, source, SHOWN.submitted_fields(view.form), error)
    notice = "The settings are saved." if patch else "Nothing changed."
    return view.redirect(f"/dashboard/sources/{source.id}", notice)


async def _new_form(
    view: View, fields: dict[str, Any], error: HookfastError | None = None
) -> Response:
    await choices.offer(view, tenant_id="tenant")
    return view.render_form(
        "source_new.html",
        error=error,
        label=SHOWN.label,
        fields={"tenant_id": None} | fields,
        settings=SHOWN.settings.values(),
        providers=TITLES,
        generates_secret=[TITLES[each] for each in GENERATES_SECRET],
    )


def _settings_form(
    view: View, source: SourceView, fields: dict[str, Any], error: HookfastError | None = None
) -> Response:
    return view.render_form(
        "source_settings.html",
        error=error,
        label=SHOWN.label,
        source=source,
        seen=seen_version(source.updated_at),
        settings=SHOWN.settings.values(),
        fields=fields,
    )

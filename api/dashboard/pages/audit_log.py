"""The audit log: who changed what, and the values before and after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, get_args

from fastapi import Query, Response

from api.access.authentication import Reader
from api.dashboard.pages import tenant_names
from api.dashboard.site import DASHBOARD
from api.http.fields import TenantId
from api.http.pagination import PageQuery
from api.routes.audit import AuditView, list_audit
from api.site.page import PageView
from api.site.page_route import PageRouter
from api.site.time_range import RangeQuery
from hookfast.audit import AuditAction
from hookfast.ids import id_pattern
from hookfast.strict_json.text import to_text

routes = PageRouter(DASHBOARD)

ACTIONS: Final[tuple[str, ...]] = get_args(AuditAction)
_PAGES: Final[Mapping[str, str]] = {
    "endpoint": "endpoints",
    "delivery": "deliveries",
    "event": "events",
    "job": "jobs",
    "source": "sources",
    "inbox": "inbox",
}
"""The kinds of resources that have a page, and the folder of its path."""


@routes.get("/audit")
async def audit_page(
    view: PageView,
    page: PageQuery,
    principal: Reader,
    times: RangeQuery,
    action: AuditAction | None = None,
    resource_id: Annotated[str | None, Query(max_length=200)] = None,
    key_id: Annotated[str | None, Query(pattern=id_pattern("key"))] = None,
    tenant_id: TenantId | None = None,
) -> Response:
    """List the changes, newest first."""
    given = {
        "action": action,
        "resource_id": resource_id,
        "key_id": key_id,
        "tenant_id": tenant_id,
    }
    listing = await list_audit(page, view.context, principal, **times.narrowed(given, view))
    await tenant_names.load_owners(view, listing.data)
    return view.render(
        "audit.html",
        listing=listing,
        given=given,
        actions=ACTIONS,
        times=times,
        pages=_PAGES,
        changes={each.id: list(_changes(each)) for each in listing.data},
    )


def _changes(entry: AuditView) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield each changed member with its values before and after."""
    for name, change in entry.changes.items():
        yield name, _text(change, "before"), _text(change, "after")


def _text(change: Mapping[str, Any], side: str) -> str | None:
    if side not in change:
        return None
    value = change[side]
    return value if isinstance(value, str) else to_text(value, layout="spaced")

"""The audit log: who changed what, and what it was before."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, get_args

from fastapi import Query, Response

from api.access.authentication import Reader
from api.dashboard.pages.delivery_list import SPANS, Within
from api.dashboard.site.page import PageView
from api.dashboard.site.page_route import page_router
from api.http.pagination import PageQuery
from api.process.context import AppContext
from api.routes.audit import AuditView, list_audit
from hookfast.audit import AuditAction
from hookfast.ids import id_pattern

routes = page_router()

ACTIONS: Final[tuple[str, ...]] = get_args(AuditAction)
_PLACES: Final[Mapping[str, str]] = {
    "endpoint": "endpoints",
    "delivery": "deliveries",
    "event": "events",
    "job": "jobs",
    "source": "sources",
    "inbox": "inbox",
}
"""Where what was changed has a page."""


@routes.get("/audit")
async def audit_page(
    view: PageView,
    page: PageQuery,
    context: AppContext,
    principal: Reader,
    action: AuditAction | None = None,
    resource_id: Annotated[str | None, Query(max_length=200)] = None,
    key_id: Annotated[str | None, Query(pattern=id_pattern("key"))] = None,
    within: Within | None = None,
) -> Response:
    """Changes, the newest first."""
    listing = await list_audit(
        page,
        context,
        principal,
        resource_id=resource_id,
        action=action,
        key_id=key_id,
        tenant_id=view.tenant_id,
        since=None if within is None else view.now - SPANS[within][0],
    )
    return view.render(
        "audit.html",
        listing=listing,
        given={"action": action, "resource_id": resource_id, "key_id": key_id, "within": within},
        actions=ACTIONS,
        spans=SPANS,
        places=_PLACES,
        changes={each.id: list(_changes(each)) for each in listing.data},
    )


def _changes(entry: AuditView) -> Iterator[tuple[str, str | None, str | None]]:
    """What is different: member, before, after."""
    for name, change in entry.changes.items():
        yield name, _text(change, "before"), _text(change, "after")


def _text(change: Mapping[str, Any], side: str) -> str | None:
    if side not in change:
        return None
    value = change[side]
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

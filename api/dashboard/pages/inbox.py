"""The inbox: what came in through the sources, and what became of it."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response

from api.access.audit import Audit
from api.access.authentication import Reader, Writer
from api.dashboard.site.json_view import MAX_SHOWN, shown
from api.dashboard.site.page import PageView
from api.dashboard.site.page_route import page_router
from api.http.fields import InboxPath, SourceId
from api.http.pagination import Page, PageQuery
from api.process.context import AppContext
from api.routes.inbox import (
    Status,
    get_inbox_body,
    get_inbox_entry,
    list_inbox,
    retry_inbox_entry,
)
from api.routes.sources import list_sources
from hookfast.errors import InvalidInput
from hookfast.inbox.form import FORM, form_pairs

routes = page_router()

_NAMED = Page(limit=200, after=None)
_HEX_SHOWN = 256


@routes.get("/inbox")
async def inbox_page(
    view: PageView,
    page: PageQuery,
    context: AppContext,
    principal: Reader,
    source_id: SourceId | None = None,
    status: Status | None = None,
    event_type: Annotated[str | None, Query(max_length=200)] = None,
    key: Annotated[str | None, Query(max_length=300)] = None,
) -> Response:
    """What came in, the newest first."""
    sources = await list_sources(_NAMED, context, principal, tenant_id=view.tenant_id)
    return view.render(
        "inbox.html",
        listing=await list_inbox(
            page,
            context,
            principal,
            source_id=source_id,
            status=status,
            event_type=event_type,
            key=key,
            tenant_id=view.tenant_id,
        ),
        sources=sources.data,
        names={each.id: each.name for each in sources.data},
        given={"source_id": source_id, "status": status, "event_type": event_type, "key": key},
    )


@routes.get("/inbox/{inbox_id}")
async def entry_page(
    inbox_id: InboxPath, view: PageView, context: AppContext, principal: Reader
) -> Response:
    """One entry: what came, how often, and the event it made."""
    entry = await get_inbox_entry(inbox_id, context, principal)
    body = bytes((await get_inbox_body(inbox_id, context, principal)).body)
    sources = await list_sources(_NAMED, context, principal, tenant_id=view.tenant_id)
    text, whole = _readable(body, entry.content_type)
    return view.render(
        "inbox_entry.html",
        entry=entry,
        source_name={each.id: each.name for each in sources.data}.get(entry.source_id),
        text=text,
        whole=whole,
    )


@routes.get("/inbox/{inbox_id}/body")
async def entry_body(inbox_id: InboxPath, context: AppContext, principal: Reader) -> Response:
    """The body, byte for byte, as a download that no browser shows or runs."""
    return await get_inbox_body(inbox_id, context, principal)


@routes.post("/inbox/{inbox_id}/retry")
async def retry(
    inbox_id: InboxPath, view: PageView, context: AppContext, audit: Audit, principal: Writer
) -> Response:
    """Emit what failed."""
    entry = await retry_inbox_entry(inbox_id, context, audit, principal)
    if entry.status == "suppressed":
        return view.go_back("Another entry has the same business fact; no event was created.")
    return view.go_back("The event was created.")


def _readable(body: bytes, content_type: str) -> tuple[str, bool]:
    """A body as text to be looked at, and whether that is all of it. Bytes that are no text are
    shown as numbers."""
    if content_type.partition(";")[0].strip().lower() == FORM:
        try:
            fields = "\n".join(f"{name} = {value}" for name, value in form_pairs(body))
            return fields[:MAX_SHOWN], len(fields) <= MAX_SHOWN
        except InvalidInput:
            pass
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return body[:_HEX_SHOWN].hex(" ", 2), len(body) <= _HEX_SHOWN
    if text.lstrip()[:1] in ("{", "["):
        return shown(text)
    return text[:MAX_SHOWN], len(text) <= MAX_SHOWN

"""The inbox: the requests that the sources received, and their events."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import Query, Response

from api.access.authentication import Reader
from api.dashboard.pages import tenant_names
from api.dashboard.pages.filter_choices import sources_to_choose
from api.dashboard.site import DASHBOARD
from api.http.fields import InboxPath, SourceId, TenantId
from api.http.pagination import PageQuery
from api.routes.inbox import (
    InboxView,
    Status,
    get_inbox_entry,
    list_inbox,
    retry_inbox_entry,
    stored_body,
)
from api.site.json_view import MAX_SHOWN, pretty
from api.site.page import PageView
from api.site.page_route import PageRouter
from api.site.session import current_visitor
from api.site.time_range import RangeQuery
from hookfast.errors import InvalidInput
from hookfast.inbox.charset import codec_of
from hookfast.inbox.form import FORM, form_pairs
from hookfast.inbox.media_type import charset_of
from hookfast.storage.inbox import inbox_entries
from hookfast.strict_json.tolerant import decode

routes = PageRouter(DASHBOARD)

_HEX_SHOWN = 256
_READ_BYTES = 4 * MAX_SHOWN  # a character has at most four bytes


@routes.get("/inbox")
async def inbox_page(
    view: PageView,
    page: PageQuery,
    principal: Reader,
    times: RangeQuery,
    source_id: SourceId | None = None,
    status: Status | None = None,
    event_type: Annotated[str | None, Query(max_length=200)] = None,
    key: Annotated[str | None, Query(max_length=300)] = None,
    tenant_id: TenantId | None = None,
) -> Response:
    """List the received requests, newest first."""
    given = {
        "source_id": source_id,
        "status": status,
        "event_type": event_type,
        "key": key,
        "tenant_id": tenant_id,
    }
    sources = await sources_to_choose(view, view.context, principal)
    listing = await list_inbox(page, view.context, principal, **times.narrowed(given, view))
    await tenant_names.load_owners(view, listing.data)
    return view.render(
        "inbox.html",
        listing=listing,
        sources=sources,
        names={each.id: each.name for each in sources},
        given=given,
        times=times,
    )


@routes.get("/inbox/{inbox_id}")
async def entry_page(inbox_id: InboxPath, view: PageView, principal: Reader) -> Response:
    """Show an entry: its body, its duplicates and its event."""
    entry = await get_inbox_entry(inbox_id, view.context, principal)
    async with view.context.database.read() as connection:
        body = await inbox_entries.body_part(connection, inbox_id, start=0, size=_READ_BYTES)
    sources = await sources_to_choose(view, view.context, principal)
    text, is_complete = _readable(body or b"", entry)
    await tenant_names.load(view, entry.tenant_id)
    return view.render(
        "inbox_entry.html",
        entry=entry,
        source_name={each.id: each.name for each in sources}.get(entry.source_id),
        text=text,
        is_complete=is_complete,
    )


@routes.get("/inbox/{inbox_id}/body")
async def entry_body(inbox_id: InboxPath, view: PageView, principal: Reader) -> Response:
    """Download the body, byte for byte, in a way that no browser shows or runs."""
    recheck = partial(current_visitor, view.request, view.site)
    return await stored_body(inbox_id, view.context, principal, recheck=recheck)


def _retried(entry: InboxView) -> str:
    if entry.status == "suppressed":
        return "Another entry has the same business fact; no event was created."
    return "The event was created."


routes.action("/inbox/{inbox_id}/retry", retry_inbox_entry, _retried)


def _readable(body: bytes, entry: InboxView) -> tuple[str, bool]:
    """Return an entry's body, of which `body` is the beginning, as readable text, and whether it is
    complete. Bytes that are no text in the charset of the content type are shown in
    hexadecimal."""
    is_whole = len(body) == entry.size
    charset = charset_of(entry.content_type)
    encoding = None if charset is None else codec_of(charset)
    if entry.content_type.partition(";")[0].strip().lower() == FORM:
        try:
            fields = body if is_whole else body.rpartition(b"&")[0]
            pairs = form_pairs(fields, encoding=encoding)
        except InvalidInput:
            pass
        else:
            lines = "\n".join(f"{name} = {value}" for name, value in pairs)
            return lines[:MAX_SHOWN], is_whole and len(lines) <= MAX_SHOWN
    text = _text(body, encoding, is_whole=is_whole)
    if text is None:
        return body[:_HEX_SHOWN].hex(" ", 2), is_whole and len(body) <= _HEX_SHOWN
    if text.lstrip()[:1] in ("{", "["):
        shown, is_complete = pretty(text)
    else:
        shown, is_complete = text[:MAX_SHOWN], len(text) <= MAX_SHOWN
    return shown, is_whole and is_complete


def _text(body: bytes, encoding: str | None, *, is_whole: bool) -> str | None:
    """Return the text of these bytes, the last of which may be the start of a character if they are
    not the whole body; None if they are no text."""
    for missing in range(1 if is_whole else 4):
        try:
            return decode(body[: len(body) - missing], encoding)
        except UnicodeDecodeError:
            continue
    return None

"""The inbox: received webhooks, once each, and their results."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any, Literal, Self

from fastapi import Query, Request, Response
from pydantic import BaseModel, Field

from api.access.audit import Audit
from api.access.authentication import Principal, Reader, Writer
from api.access.body_owners import tenant_owners
from api.access.key_recheck import recheck_key
from api.access.ownership import found, owned
from api.context.context import AppContext, Context
from api.context.source_cache import rules_of
from api.http.fields import (
    InboxPath,
    SourceFilter,
    TenantFilter,
    Time,
    TimeInput,
)
from api.http.pagination import Listing, PageQuery
from api.http.response_body import StoredBody
from api.http.routing import router
from hookfast.errors import Conflict, InvalidInput, NotFound
from hookfast.inbox import InboundRequest, RequestHeaders, provider
from hookfast.inbox.verified_request import read_payload
from hookfast.storage.audit.audited import done, facts
from hookfast.storage.inbox import inbox_entries, inbox_keys, inbox_retry, sources
from hookfast.storage.inbox.inbox_entries import EntrySummary, InboxFilter
from hookfast.storage.inbox.inbox_keys import DELIVERY
from hookfast.storage.inbox.inbox_retry import RetryInput
from hookfast.storage.tables import InboxEntry, Source

routes = router("Inbox")

Status = Literal["accepted", "suppressed", "failed"]


class InboxSummary(BaseModel):
    """A verified and stored request, without its body and headers."""

    id: str = Field(description="Id of the inbox entry, `inb_…`.")
    source_id: str
    tenant_id: str
    key: str = Field(
        description="Identifies duplicates: `id:` and the provider's delivery id, `key:` and the "
        "result of the source's expression, or `sha256:` and the body's hash, with the signed time "
        "of a `generic` source before it. Except with an expression, duplicates have equal bodies."
    )
    event_type: str = Field(description="The type of its event, after the source's renames.")
    business_key: str | None = Field(description="The key of the business fact that it reports.")
    hops: int = Field(description="How many sources its event has passed, this one included.")
    payload_sha256: str = Field(description="SHA-256 of the body, in hexadecimal.")
    content_type: str = Field(description="The request's `Content-Type`.")
    size: int = Field(description="Size of the body, in bytes.")
    status: Status = Field(
        description="`accepted`: an event was emitted. `suppressed`: an earlier entry reported the "
        "same business fact. `failed`: it violates the schema of its event type, and at most the "
        "subscriptions with payload `raw` got an event; `last_error` says where."
    )
    event_id: str | None = Field(description="The event that was emitted; null: none was.")
    suppressed_by: str | None = Field(description="The earlier entry of the same business fact.")
    last_error: str | None = Field(description="Where it violates the schema.")
    duplicates: int = Field(description="How often it was received again.")
    conflicts: int = Field(
        description="How often it was received again with another body; only a key expression "
        "makes such a request the same."
    )
    conflict_sha256: str | None = Field(description="The hash of the last such body.")
    received_at: Time = Field(description="When it was received first.")
    last_seen_at: Time = Field(description="When it was received last, duplicates included.")

    @classmethod
    def of(cls, entry: EntrySummary) -> Self:
        return cls(**{name: getattr(entry, name) for name in InboxSummary.model_fields})


class InboxView(InboxSummary):
    """A verified and stored request."""

    headers: list[list[str]] = Field(
        description="The headers that may be forwarded, as pairs, without credentials and "
        "signatures."
    )

    @classmethod
    def of(cls, entry: EntrySummary) -> Self:
        return cls(**{name: getattr(entry, name) for name in InboxView.model_fields})


@routes.get("/inbox", summary="List inbox entries")
async def list_inbox(
    page: PageQuery,
    context: AppContext,
    principal: Reader,
    source_id: SourceFilter = None,
    status: Annotated[Status | None, Query(description="Only entries with this status.")] = None,
    event_type: Annotated[
        str | None,
        Query(
            max_length=200,
            description="Only entries of exactly this event type.",
            examples=["github.push.received"],
        ),
    ] = None,
    key: Annotated[
        str | None,
        Query(max_length=300, description="The entries with this key; needs `source_id`."),
    ] = None,
    tenant_id: TenantFilter = None,
    since: Annotated[TimeInput | None, Query(description="Received at this time or later.")] = None,
    until: Annotated[TimeInput | None, Query(description="Received before this time.")] = None,
) -> Listing[InboxSummary]:
    """Newest first. All given filters must match."""
    tenant_id = principal.tenant_for(tenant_id)
    if key is not None and source_id is None:
        raise InvalidInput.at("key", "needs `source_id` too, because keys are per source")
    chosen = InboxFilter(
        source_id=source_id,
        tenant_id=tenant_id,
        status=status,
        event_type=event_type,
        since=since,
        until=until,
    )
    async with context.database.read() as connection:
        if source_id is not None:
            # also a deleted source: its inbox entries stay
            owned(await sources.get(connection, source_id, deleted=True), principal)
        if key is None or source_id is None:
            rows = await inbox_entries.list_page(
                connection, chosen, after=page.after, limit=page.rows
            )
        else:
            name = f"{DELIVERY}{key}"
            ids = await inbox_keys.find_holders(connection, source_id=source_id, key=name)
            entries = await inbox_entries.summaries(connection, ids)
            rows = sorted(
                (
                    row
                    for row in entries.values()
                    if chosen.matches(row) and (page.after is None or row.id < page.after)
                ),
                key=lambda row: row.id,
                reverse=True,
            )[: page.rows]
    return page.listing(rows, InboxSummary.of)


@routes.get("/inbox/{inbox_id}", summary="Get an inbox entry")
async def get_inbox_entry(inbox_id: InboxPath, context: AppContext, principal: Reader) -> InboxView:
    async with context.database.read() as connection:
        return InboxView.of(owned(await inbox_entries.details(connection, inbox_id), principal))


_BYTES: dict[str, Any] = {
    "description": "The body, byte for byte.",
    "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
}


@routes.get(
    "/inbox/{inbox_id}/body",
    summary="Get the body of an inbox entry",
    response_class=Response,
    responses={200: _BYTES},
)
async def get_inbox_body(
    inbox_id: InboxPath, context: AppContext, principal: Reader, request: Request
) -> Response:
    """Returns the body as a download, whatever its content type was, so that no browser shows or
    runs foreign content under this address."""
    return await stored_body(inbox_id, context, principal, recheck=partial(recheck_key, request))


async def stored_body(
    inbox_id: str, context: Context, principal: Principal, *, recheck: Callable[[], Awaitable[Any]]
) -> Response:
    """Return the answer with an entry's body. `recheck` is called before each part of it, and
    raises HookfastError if the caller may not have it any more."""
    async with context.database.read() as connection:
        entry = owned(await inbox_entries.details(connection, inbox_id), principal)

    async def part(start: int, size: int) -> bytes:
        await recheck()
        async with context.database.read() as connection:
            found = await inbox_entries.body_part(connection, inbox_id, start=start, size=size)
        if found is None:
            raise NotFound("The entry was deleted while its body was sent.")
        return found

    return StoredBody(
        part,
        size=entry.size,
        headers={
            "Content-Type": "application/octet-stream",
            "Content-Disposition": f'attachment; filename="{entry.id}.bin"',
            "Content-Security-Policy": "default-src 'none'; sandbox",
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-store",
        },
    )


@routes.post("/inbox/{inbox_id}/retry", summary="Retry a failed inbox entry")
async def retry_inbox_entry(
    inbox_id: InboxPath, context: AppContext, audit: Audit, principal: Writer
) -> InboxView:
    """Emits the event of an entry that failed: that did not match the schema of its event type.
    Subscriptions with payload `raw` that have got it do not get it again. If it still does not
    match, the response is 422 `schema_violation`; if the entry has not failed, 409 `not_failed`; if
    the tenant's quota of events per day is used up, 429 `daily_quota_exceeded`."""
    async with context.database.read() as connection:
        known = owned(await inbox_entries.details(connection, inbox_id), principal)
        source = found(await sources.get(connection, known.source_id, deleted=True))
    with context.bodies.claim("inbox retry", *tenant_owners(principal.tenant_id)) as claim:
        await claim.grow(known.size)
        async with context.database.read() as connection:
            entry = found(await inbox_entries.get(connection, inbox_id))
        retried = await asyncio.to_thread(_read_again, entry, source)
        async with context.database.write() as connection:
            await inbox_retry.retry(
                connection, retried, quotas=context.event_quotas, now=context.clock()
            )
            after = found(await inbox_entries.details(connection, inbox_id))
            before = facts(entry)
            for name in ("status", "event_id", "suppressed_by", "last_error"):
                setattr(entry, name, getattr(after, name))
            await audit.record(
                connection, done("inbox.retry", entry, before=before, after=facts(entry))
            )
    context.doorbell.ring()
    return InboxView.of(after)


def _read_again(entry: InboxEntry, source: Source) -> RetryInput:
    """Read a failed entry again, as its source's provider does."""
    if entry.status != "failed":
        raise Conflict(
            f"Only failed entries can be retried; this one is {entry.status}.", code="not_failed"
        )
    received = InboundRequest(
        method="POST",
        url="",
        headers=RequestHeaders(
            [
                *((name, value) for name, value in entry.headers),
                ("Content-Type", entry.content_type),
            ]
        ),
        body=entry.body,
        caller="",
        at=entry.received_at,
    )
    bound = provider(source.provider, source.options)
    reading, _ = read_payload(bound, received)
    return RetryInput(
        entry=entry,
        data=reading.text,
        value=reading.value,
        provider=source.provider,
        window=rules_of(source, bound).business_window,
    )

"""Search: whatever a person has in hand, such as an id from a log, leads to what it belongs to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, get_args

from fastapi import Query
from sqlalchemy.ext.asyncio import AsyncConnection

from api.access.authentication import Principal, Reader
from api.access.ownership import check_tenant_exists
from api.context.context import AppContext
from api.forms.search import MAX_TEXT, SearchHit, SearchResults, SearchText
from api.http.fields import TenantFilter
from api.http.routing import router
from hookfast.storage.search import ids, keys, names
from hookfast.storage.search.hit import PER_KIND, SCANNED, Hit, Kind, Scope
from hookfast.storage.search.names import Named

routes = router("Search")

_ORDER: Final = {kind: place for place, kind in enumerate(get_args(Kind))}


@routes.get(
    "/search",
    summary="Find anything by an id, a key, a URL or a name",
    description=f"""Searches for the text as any id, also a shortened one or one inside a longer
text such as a log line; the idempotency key of an event; a provider's id of a received request,
such as `X-GitHub-Delivery`; and as a part of a URL or name of an endpoint, of an event type, and of
the name of a source or tenant. At most {PER_KIND} hits of each kind, exact ones first. Parts of
names are found among the newest {SCANNED:,} of each kind.

A tenant's key finds what belongs to the tenant, and events by the keys that the tenant used itself.
Trace ids are not indexed.""",
)
async def search(
    q: Annotated[
        str,
        Query(
            min_length=1,
            max_length=MAX_TEXT,
            description="What to search for. Quotes and spaces around it are removed.",
            examples=["order.invoice.paid"],
        ),
    ],
    context: AppContext,
    principal: Reader,
    tenant_id: TenantFilter = None,
) -> SearchResults:
    text = SearchText.parse(q)
    scope = scope_of(principal, principal.tenant_for(tenant_id))
    async with context.database.read() as connection:
        await check_tenant_exists(connection, tenant_id)
        found = await _find(connection, text, scope=scope, principal=principal)
    hits: dict[tuple[str, str], Hit] = {}
    for hit in found:  # two ids of one log line, or an id and a key, may lead to one thing
        hits.setdefault((hit.kind, hit.id), hit)
    ordered = sorted(hits.values(), key=lambda hit: (_ORDER[hit.kind], not hit.exact))
    return SearchResults(
        data=[SearchHit.of(hit) for hit in ordered],
        looks_like=text.looks_like,
        hint=None if ordered else text.hint,
    )


def scope_of(principal: Principal, tenant_id: str | None) -> Scope:
    """Return what this caller may find of this tenant (None: of all)."""
    return Scope(
        tenant_id=tenant_id,
        endpoint_id=principal.endpoint_id,
        keys=principal.scope in ("operator", "tenant") and not principal.by_link,
    )


async def _find(
    connection: AsyncConnection, text: SearchText, *, scope: Scope, principal: Principal
) -> list[Hit]:
    found: list[Hit] = []
    wanted = list(text.ids)
    if text.shortened is not None:
        prefix, end = text.shortened
        for id_ in await ids.find_shortened(connection, prefix, end, scope=scope):
            wanted.append((prefix, id_))
    for prefix, id_ in wanted:
        found += await ids.find(connection, prefix, id_, scope=scope)
    if scope.endpoint_id is None:
        found += await keys.events_by_key(
            connection, text.keys, own=principal.idempotency_scope, scope=scope
        )
        found += await keys.inbox_entries_by_key(connection, text.keys, scope=scope)
    if text.names:
        for kind in kinds_of_names(scope, principal):
            named = await names.find(connection, kind, text.names, scope=scope, limit=PER_KIND)
            found += _hits(kind, named, text)
    return found


def kinds_of_names(scope: Scope, principal: Principal) -> Iterable[Named]:
    """Yield the kinds of things that this caller may find by their names."""
    yield "endpoint"
    if scope.endpoint_id is None:
        yield from ("source", "event_type")
        if scope.keys:
            yield "api_key"
        if principal.scope == "operator" and scope.tenant_id is None:
            yield "tenant"


def _hits(kind: Named, found: Iterable[names.Name], text: SearchText) -> list[Hit]:
    return [
        Hit(
            kind=kind,
            id=each.id,
            title=each.name,
            detail="" if each.other == each.name else each.other,
            tenant_id=each.id if kind == "tenant" else each.tenant_id,
            exact=each.is_exactly((text.text, *text.names)),
        )
        for each in found
    ]

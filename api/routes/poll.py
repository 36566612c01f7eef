"""Polling an endpoint's events, for consumers that cannot receive requests. The cursor acknowledges
processed events."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal, TypeAlias

from fastapi import Query, Request, Response
from sqlalchemy.ext.asyncio import AsyncConnection

from api.access.authentication import Principal, Reader
from api.access.body_owners import tenant_owners
from api.access.key_recheck import recheck_key
from api.access.ownership import owned
from api.context.context import AppContext, Context
from api.forms.poll import PollView, poll_body
from api.http.fields import EndpointPath, WholeNumber
from api.http.routing import WaitingRoute, router
from api.stream.connection import connection_of, until_left
from api.stream.hub import Follower
from hookfast import byte_budget
from hookfast.byte_budget import Claim
from hookfast.endpoints.circuit import EndpointState
from hookfast.errors import Conflict, Forbidden, InvalidInput
from hookfast.storage.endpoints import endpoints
from hookfast.storage.feed import feed, poll, poll_positions
from hookfast.storage.feed.cursor import MAX_LENGTH, START, Cursor
from hookfast.storage.feed.feed import Gap
from hookfast.storage.feed.poll import PollPage
from hookfast.storage.feed.poll_positions import Acknowledged
from hookfast.storage.tables import Endpoint

routes = router("Polling", WaitingRoute)

MAX_WAIT = 30
"""Seconds; less than the 60 s after which load balancers drop an idle connection."""
_MAX_EVENTS = 200
_COPIES = 2  # of a page's bodies: as they were read, and in the answer
_READ_AGAIN_SECONDS = 5.0  # to notice that the endpoint was paused or deleted
_GATHER_SECONDS = 0.05

Acknowledging: TypeAlias = Literal["forward", "none", "set"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    """The cursor to read from, and the gap in the feed there."""

    after: Cursor
    gap: Gap | None


@routes.get(
    "/endpoints/{endpoint_id}/poll", summary="Poll an endpoint's events", response_model=PollView
)
async def poll_endpoint(
    endpoint_id: EndpointPath,
    request: Request,
    context: AppContext,
    principal: Reader,
    cursor: Annotated[
        str | None,
        Query(
            max_length=MAX_LENGTH,
            description="The `next_cursor` of a page that you have processed: acknowledges all "
            "events up to it and returns the next ones. `start` is before the oldest kept event, "
            "`end` after the newest. Default: the acknowledged cursor, otherwise the first event "
            "since the endpoint was created.",
        ),
    ] = None,
    limit: Annotated[WholeNumber, Query(ge=1, le=_MAX_EVENTS, description="Events per page.")] = 50,
    wait: Annotated[
        WholeNumber,
        Query(ge=0, le=MAX_WAIT, description="Seconds to wait for an event if there is none."),
    ] = 0,
    ack: Annotated[
        Acknowledging | None,
        Query(
            description="What `cursor` acknowledges. `forward` (the default): everything up to it, "
            "never less than before. `none`: nothing (the default, and the only value allowed, for "
            "a key that may only read). `set`: everything up to it, even if it was more before."
        ),
    ] = None,
) -> Response:
    """Events in the order in which they were committed, each at least once: an event that commits
    late never appears before a cursor that was already returned. The same cursor returns the same
    events again. An endpoint with the mode `push` can be polled too; that does not affect its
    deliveries."""
    mode = _acknowledging(ack, cursor=cursor, principal=principal)
    async with context.database.read() as connection:
        endpoint = _pollable(owned(await endpoints.get(connection, endpoint_id), principal))
        start = await _start(connection, context, endpoint, cursor)
    acknowledges = mode != "none" and (start.gap is None or start.gap.reason == "expired")
    if cursor is not None and acknowledges:
        # Before returning more events: a consumer that dies now continues from here.
        await _acknowledge(context, endpoint_id, start.after, exactly=mode == "set")
    request_poll = _Poll(
        request=request,
        context=context,
        principal=principal,
        endpoint_id=endpoint_id,
        limit=limit,
    )
    with context.bodies.claim("poll", *tenant_owners(principal.tenant_id)) as memory:
        result = await request_poll.read_until(start.after, seconds=wait, memory=memory)
        size = _COPIES * result.page.size
        await memory.grow(size, within=byte_budget.SHORT_WAIT_SECONDS, loaded=True)
        write = partial(
            poll_body,
            result.page,
            acknowledged=result.acknowledged,
            gap=start.gap,
            public_url=context.settings.resolved_public_url,
        )
        mapped = any(item.mapping is not None for item in result.page.items)
        # mappings take too long for the event loop
        body = await asyncio.to_thread(write) if mapped else write()
    await recheck_key(request)
    return Response(body, media_type="application/json")


def _acknowledging(
    ack: Acknowledging | None, *, cursor: str | None, principal: Principal
) -> Acknowledging:
    """Return how to acknowledge. Raises Forbidden if the caller may not, and InvalidInput for `set`
    without a cursor."""
    may = principal.scope in ("operator", "tenant")
    if ack in ("forward", "set") and not may:
        raise Forbidden("Acknowledging needs a key with the scope operator or tenant.")
    if ack == "set" and cursor is None:
        raise InvalidInput.at("cursor", "is required with `ack=set`")
    return ack or ("forward" if may else "none")


def _pollable(endpoint: Endpoint) -> Endpoint:
    """Return the endpoint if it may be polled. A `push` endpoint always may: while it is paused or
    disabled, polling is the way to get its unsent events. Raises Conflict."""
    if endpoint.mode == "poll" and endpoint.state != EndpointState.ENABLED:
        raise Conflict(
            f"The endpoint is {endpoint.state}: its events cannot be polled until it is "
            f"{'resumed' if endpoint.state == 'paused' else 'enabled'}. No event is lost.",
            code=f"endpoint_{endpoint.state}",
        )
    return endpoint


async def _start(
    connection: AsyncConnection, context: Context, endpoint: Endpoint, text: str | None
) -> _Start:
    """Return the position of the caller's cursor; without one, the acknowledged position."""
    now = context.clock()
    match text:
        case None:
            known = await poll_positions.get(connection, endpoint.id)
            if known is not None:
                after = known.cursor
            else:
                after = await poll.first_cursor(connection, endpoint, now=now)
        case "start":
            after = START
        case "end":
            after = await feed.end_cursor(connection, now=now)
        case _:
            after = Cursor.parse(text, pointer="cursor")
    gap = await feed.find_gap(connection, after, now=now)
    return _Start(after=after if gap is None else gap.cursor, gap=gap)


async def _acknowledge(
    context: Context, endpoint_id: str, cursor: Cursor, *, exactly: bool
) -> None:
    move = poll_positions.put if exactly else poll_positions.advance
    async with context.database.write() as connection:
        await move(connection, endpoint_id, cursor, now=context.clock())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Poll:
    """One poll request, which may read the feed several times."""

    request: Request
    context: Context
    principal: Principal
    endpoint_id: str
    limit: int

    async def read(self, after: Cursor) -> _Result:
        """Read the next page. The key is looked at and the endpoint read again each time: they may
        have been revoked, changed, paused or deleted."""
        await recheck_key(self.request)
        async with self.context.streams.polls, self.context.database.read() as connection:
            endpoint = _pollable(
                owned(await endpoints.get(connection, self.endpoint_id), self.principal)
            )
            now = self.context.clock()
            page = await poll.read(connection, endpoint, after=after, limit=self.limit, now=now)
            acknowledged = await poll_positions.get(connection, self.endpoint_id)
        return _Result(page, acknowledged)

    async def read_until(self, after: Cursor, *, seconds: float, memory: Claim) -> _Result:
        """Return the first page that has events, or an empty page when the time is over, the server
        shuts down or the client has left. Reads when the process's feed reader has found an event
        that may be for the endpoint, and every few seconds. Events that come
        meanwhile are held in `memory`."""
        result = await self.read(after)
        if result.page.items or not seconds:
            return result
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        streams, page = self.context.streams, result.page
        receive, connection = self.request.receive, connection_of(self.request.scope)
        with self.context.stream_slots.enter(self.principal.tenant_id):
            async with streams.following(page.filter, page.cursor, memory=memory) as follower:
                while not result.page.items and clock() < until and not connection.ending.is_set():
                    if not result.page.more:
                        waiting = _wait_for_events(follower, until=until)
                        if not await until_left(waiting, receive, connection):
                            break
                    result = await self.read(result.page.cursor)
        return result


async def _wait_for_events(follower: Follower, *, until: float) -> None:
    """Wait until an event may be for the endpoint, or it is time to look at the endpoint again."""
    remaining = until - asyncio.get_running_loop().time()
    if await follower.next(min(remaining, _READ_AGAIN_SECONDS)):
        # The event may be for another endpoint: if the tenant emits many, read less often.
        await asyncio.sleep(_GATHER_SECONDS)


@dataclass(frozen=True, slots=True)
class _Result:
    page: PollPage
    acknowledged: Acknowledged | None

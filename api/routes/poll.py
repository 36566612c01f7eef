"""Polling: an endpoint's events for whoever cannot receive, with a cursor that acknowledges."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from fastapi import Query, Request, Response
from sqlalchemy.ext.asyncio import AsyncConnection

from api.access.authentication import Principal, Reader
from api.access.ownership import owned
from api.forms.poll import PollView, body_of
from api.http.fields import EndpointPath
from api.http.routing import router
from api.process.context import AppContext, Context
from api.stream.connection import connection_of
from api.stream.hub import Follower
from hookfast.endpoints.circuit import EndpointState
from hookfast.errors import Conflict, Forbidden, InvalidInput
from hookfast.storage.endpoints import endpoints
from hookfast.storage.feed import feed, poll, poll_positions
from hookfast.storage.feed.cursor import MAX_LENGTH, START, Cursor
from hookfast.storage.feed.feed import Gap
from hookfast.storage.feed.poll import PollPage
from hookfast.storage.feed.poll_positions import Acknowledged
from hookfast.storage.tables import Endpoint

routes = router("Polling")

MAX_WAIT = 30
"""Seconds. Below the 60 s after which load balancers drop a connection that says nothing."""
_MAX_EVENTS = 200
_LOOK_AGAIN = 5.0  # seconds; for what no event tells of: the endpoint was paused or deleted
_SHUTDOWN_SEEN = 1.0  # seconds
_BREATH = 0.05  # seconds

Acknowledging: TypeAlias = Literal["forward", "none", "set"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where to read on, and what is missing there."""

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
            description="`next_cursor` of a page that is done with: what is up to it is "
            "acknowledged, and what follows is answered. `start` is before the oldest event that "
            "is kept, `end` behind the newest. Default: what is acknowledged, else the first "
            "event since the endpoint was made.",
        ),
    ] = None,
    limit: Annotated[int, Query(ge=1, le=_MAX_EVENTS, description="Events of one page.")] = 50,
    wait: Annotated[
        int,
        Query(ge=0, le=MAX_WAIT, description="Seconds to wait for an event where there is none."),
    ] = 0,
    ack: Annotated[
        Acknowledging | None,
        Query(
            description="What `cursor` acknowledges. `forward` (the default): what is up to it, "
            "and never less than before. `none`: nothing (the default, and all there is, for a key "
            "that may only read). `set`: exactly what is up to it, even if it was more before."
        ),
    ] = None,
) -> Response:
    """Events in the order in which they were committed, each at least once: one that commits late
    never appears behind a cursor that was given out. The same cursor gives the same events again.
    An endpoint that is sent to can be polled as well; polling changes nothing about its deliveries.
    """
    wanted = _acknowledging(ack, cursor=cursor, principal=principal)
    async with context.database.read() as connection:
        endpoint = _answering(owned(await endpoints.get(connection, endpoint_id), principal))
        place = await _place(connection, context, endpoint, cursor)
    acknowledges = wanted != "none" and (place.gap is None or place.gap.reason == "expired")
    if cursor is not None and acknowledges:
        # Before anything more is given out: a consumer that dies now goes on from here.
        await _acknowledge(context, endpoint_id, place.after, exactly=wanted == "set")
    asked = _Poll(
        context=context,
        principal=principal,
        endpoint_id=endpoint_id,
        limit=limit,
        ending=connection_of(request.scope).ending,
    )
    found = await asked.look_until(place.after, seconds=wait)
    return Response(
        body_of(
            found.page,
            acknowledged=found.acknowledged,
            gap=place.gap,
            public_url=context.settings.resolved_public_url,
        ),
        media_type="application/json",
    )


def _acknowledging(
    ack: Acknowledging | None, *, cursor: str | None, principal: Principal
) -> Acknowledging:
    """What the caller asked for, once it may."""
    may = principal.scope in ("operator", "tenant")
    if ack in ("forward", "set") and not may:
        raise Forbidden("Acknowledging needs a key with the scope operator or tenant.")
    if ack == "set" and cursor is None:
        raise InvalidInput.at("cursor", "say which cursor is to be set")
    return ack or ("forward" if may else "none")


def _answering(endpoint: Endpoint) -> Endpoint:
    """The endpoint, when it may be polled. One that is sent to always may: while it is paused or
    disabled, polling is the way to get at what is not sent. Raises Conflict."""
    if endpoint.mode == "poll" and endpoint.state != EndpointState.ENABLED:
        raise Conflict(
            f"The endpoint is {endpoint.state}: nobody gets its events until it is "
            f"{'resumed' if endpoint.state == 'paused' else 'enabled'}. None is lost meanwhile.",
            code=f"endpoint_{endpoint.state}",
        )
    return endpoint


async def _place(
    connection: AsyncConnection, context: Context, endpoint: Endpoint, text: str | None
) -> _Place:
    """Where the caller stands, or its consumer stood."""
    now = context.clock()
    match text:
        case None:
            known = await poll_positions.get(connection, endpoint.id)
            if known is not None:
                after = known.cursor
            else:
                after = await poll.begin(connection, endpoint, now=now)
        case "start":
            after = START
        case "end":
            after = await feed.end(connection, now=now)
        case _:
            after = Cursor.parse(text, pointer="cursor")
    gap = await feed.gap(connection, after, now=now)
    return _Place(after=after if gap is None else gap.cursor, gap=gap)


async def _acknowledge(
    context: Context, endpoint_id: str, cursor: Cursor, *, exactly: bool
) -> None:
    move = poll_positions.put if exactly else poll_positions.advance
    async with context.database.write() as connection:
        await move(connection, endpoint_id, cursor, now=context.clock())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Poll:
    """One request, which may look several times."""

    context: Context
    principal: Principal
    endpoint_id: str
    limit: int
    ending: asyncio.Event

    async def look(self, after: Cursor) -> _Look:
        """What is there now. The endpoint is read anew each time: it may have been changed, paused
        or deleted meanwhile."""
        async with self.context.database.read() as connection:
            endpoint = _answering(
                owned(await endpoints.get(connection, self.endpoint_id), self.principal)
            )
            now = self.context.clock()
            page = await poll.read(connection, endpoint, after=after, limit=self.limit, now=now)
            acknowledged = await poll_positions.get(connection, self.endpoint_id)
        return _Look(page, acknowledged)

    async def look_until(self, after: Cursor, *, seconds: float) -> _Look:
        """The first page with something in it, or the last that had nothing when the time was over,
        the server shut down or the client had left. Looks when the process's one reader of the feed
        has found an event that may be for the endpoint, and now and then."""
        found = await self.look(after)
        if found.page.items or not seconds:
            return found
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        streams, page = self.context.streams, found.page
        with self.context.stream_seats.enter(self.principal.tenant_id):
            async with streams.following(page.part, page.cursor) as follower:
                while not found.page.items and clock() < until and not self.ending.is_set():
                    if not found.page.more:
                        await self._woken(follower, until=until)
                    found = await self.look(found.page.cursor)
        return found

    async def _woken(self, follower: Follower, *, until: float) -> None:
        clock = asyncio.get_running_loop().time
        until = min(until, clock() + _LOOK_AGAIN)
        while (remaining := until - clock()) > 0 and not self.ending.is_set():
            if await follower.next(min(remaining, _SHUTDOWN_SEEN)):
                # it may be for other endpoints: a tenant that emits much must not make us look
                # as often
                await asyncio.sleep(_BREATH)
                return


@dataclass(frozen=True, slots=True)
class _Look:
    page: PollPage
    acknowledged: Acknowledged | None

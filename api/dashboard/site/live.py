"""What moves on a page: server-sent events (WHATWG HTML, section 9.2) that carry HTML.

The page shows a template within `<div data-live="/dashboard/live/…">`; the stream renders the same
template again every few seconds and sends it when it has changed. Without script the page is as it
was when it was loaded, which is right too.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Final

import structlog
from fastapi import Response
from starlette.types import Receive, Scope, Send

from api.answers.problems import problem_for
from api.dashboard.site.page import View
from api.dashboard.site.session import current_visitor
from api.stream.connection import connection_of
from api.stream.slots import StreamSlots
from hookfast.errors import HookfastError

SEATS: Final = 200
"""Live parts one process has open at once; each asks the database every few seconds."""
_LIFETIME_SECONDS: Final = 300.0
"""Then the browser asks anew: from whichever process serves it next, after an update too."""
_STALL_SECONDS: Final = 30.0
_PAUSES_PER_LOOK: Final = 20
"""The figures of an endpoint with 5,000 deliveries a day take 0.1 s of processor time: thirty who
look at it every three seconds would take all there is."""
_LONGEST_PAUSE_SECONDS: Final = 30.0
_RETRY_MILLIS: Final = 2_000

Render = Callable[[], Awaitable[str]]

log = structlog.get_logger()


def stream(view: View, render: Render, *, every: float) -> Response:
    """The answer that sends what `render` gives, now and whenever it is different, looking `every`
    so many seconds, rarer where looks take long. It ends with the session, with the server, and
    after a few minutes."""
    view.live = True
    return _LiveResponse(view, render, every=every)


async def changes(view: View, render: Render, *, every: float) -> AsyncGenerator[str]:
    """What such an answer says, a message at a time."""
    clock = asyncio.get_running_loop().time
    ending = connection_of(view.request.scope).ending
    until, sent = clock() + _LIFETIME_SECONDS, None
    yield f"retry: {_RETRY_MILLIS}\n\n"
    while clock() < until and not ending.is_set():
        began = clock()
        try:
            if sent is not None:
                await current_visitor(view.request)
            html = await render()
        except HookfastError:  # the session is over, or what is shown is gone
            return
        except Exception as error:
            problem_for(view.request, error)  # logs it; the browser comes back
            return
        took = clock() - began
        yield _message(html) if html != sent else ":\n\n"
        sent = html
        with suppress(TimeoutError):
            async with asyncio.timeout(pause(every, took=took)):
                await ending.wait()


def pause(every: float, *, took: float) -> float:
    """For how many seconds not to look after a look that took so many. Where looks take long,
    because there is much to read or because many look, they are rarer: together they never take
    more than a small part of the process, which has events to accept."""
    return max(every, min(took * _PAUSES_PER_LOOK, _LONGEST_PAUSE_SECONDS))


class _LiveResponse(Response):
    """`changes`, sent. Takes a seat while it lasts."""

    media_type = "text/event-stream"

    def __init__(self, view: View, render: Render, *, every: float) -> None:
        # no proxy on the way may gather it, as nginx does by default
        super().__init__(headers={"X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._view = view
        self._changes = changes(view, render, every=every)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        seats: StreamSlots = scope["app"].state.live_seats
        visitor = self._view.visitor
        with seats.enter(None if visitor is None else visitor.principal.tenant_id):
            start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
            await send(start)
            sending = asyncio.create_task(self._send(send), name="live")
            leaving = asyncio.create_task(_left(receive), name="live-left")
            try:
                await asyncio.wait([sending, leaving], return_when=asyncio.FIRST_COMPLETED)
                if sending.done():
                    sending.result()
            except TimeoutError:
                log.info("A live part was cut: its browser took nothing for too long.")
                connection_of(scope).abort()
            finally:
                for task in (sending, leaving):
                    task.cancel()
                await asyncio.wait([sending, leaving])
                await self._changes.aclose()

    async def _send(self, send: Send) -> None:
        async for message in self._changes:
            async with asyncio.timeout(_STALL_SECONDS):
                body = message.encode()
                await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _left(receive: Receive) -> None:
    """Return when the browser is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _message(html: str) -> str:
    return "".join(f"data: {line}\n" for line in html.splitlines()) + "\n"

"""Live parts of pages: server-sent events (WHATWG HTML, section 9.2) that carry HTML.

The page includes a template in `<div data-live="/dashboard/live/…">`. The stream renders the same
template every few seconds and sends it when it has changed. Without script, the page stays as it
was when it was loaded.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

import structlog
from fastapi import Response
from starlette.types import Receive, Scope, Send

from api.answers.problems import problem_of_unexpected
from api.site.page import View
from api.site.session import current_visitor
from api.stream.connection import connection_of
from api.stream.slots import StreamSlots
from hookfast.errors import HookfastError

SLOTS: Final = 200
"""Live parts that one process has open at once; each queries the database every few seconds."""
_LIFETIME_SECONDS: Final = 300.0
"""Then the browser connects again, perhaps to another process or a newer version."""
_STALL_SECONDS: Final = 30.0
_DELAY_PER_RENDERING: Final = 20
"""The figures of an endpoint with 5,000 deliveries a day take 0.1 s of processor time: thirty
people who watch it, refreshed every three seconds, would use up the process."""
_LONGEST_DELAY_SECONDS: Final = 30.0
_RETRY_MILLIS: Final = 2_000

Render = Callable[[], Awaitable[str]]

log = structlog.get_logger()


def stream(
    view: View, template: str, read: Callable[[], Awaitable[dict[str, Any]]], *, every: float
) -> Response:
    """Send the template with the values that `read` returns, now and whenever it has changed.

    It is rendered `every` so many seconds, less often if that takes long. The stream ends with the
    session, with the server, and after a few minutes.
    """
    view.live = True

    async def render() -> str:
        view.now = view.context.clock()
        return view.html(template, **await read())

    return _LiveResponse(view, render, every=every)


async def messages(view: View, render: Render, *, every: float) -> AsyncGenerator[str]:
    """Yield the messages of a stream: the HTML when it has changed, else a comment."""
    clock = asyncio.get_running_loop().time
    ending = connection_of(view.request.scope).ending
    until, sent = clock() + _LIFETIME_SECONDS, None
    yield f"retry: {_RETRY_MILLIS}\n\n"
    while clock() < until and not ending.is_set():
        began = clock()
        try:
            if sent is not None:
                await current_visitor(view.request, view.site)
            html = await render()
        except HookfastError:  # the session has ended, or the resource was deleted
            return
        except Exception as error:
            problem_of_unexpected(view.request, error)  # logs it; the browser reconnects
            return
        took = clock() - began
        yield _message(html) if html != sent else ":\n\n"
        sent = html
        with suppress(TimeoutError):
            async with asyncio.timeout(refresh_delay(every, took=took)):
                await ending.wait()


def refresh_delay(every: float, *, took: float) -> float:
    """Return the seconds to wait before the next rendering. `took`: seconds that the last one took.

    Slow renderings are less frequent, so that live parts together use a small part of the process,
    which has events to accept.
    """
    return max(every, min(took * _DELAY_PER_RENDERING, _LONGEST_DELAY_SECONDS))


class _LiveResponse(Response):
    """A response that sends the messages of a stream. It takes a slot while it lasts."""

    media_type = "text/event-stream"

    def __init__(self, view: View, render: Render, *, every: float) -> None:
        # a proxy must not buffer the stream, as nginx does by default
        super().__init__(headers={"X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._view = view
        self._messages = messages(view, render, every=every)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        slots: StreamSlots = scope["app"].state.live_slots
        visitor = self._view.visitor
        with slots.enter(None if visitor is None else visitor.principal.tenant_id):
            start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
            await send(start)
            sending = asyncio.create_task(self._send(send), name="live")
            leaving = asyncio.create_task(_wait_for_disconnect(receive), name="live-left")
            try:
                await asyncio.wait([sending, leaving], return_when=asyncio.FIRST_COMPLETED)
                if sending.done():
                    sending.result()
            except TimeoutError:
                log.info("Closed a live part: its browser did not read for too long.")
                connection_of(scope).abort()
            finally:
                for task in (sending, leaving):
                    task.cancel()
                await asyncio.wait([sending, leaving])
                await self._messages.aclose()

    async def _send(self, send: Send) -> None:
        async for message in self._messages:
            async with asyncio.timeout(_STALL_SECONDS):
                body = message.encode()
                await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _wait_for_disconnect(receive: Receive) -> None:
    """Return when the browser has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _message(html: str) -> str:
    return "".join(f"data: {line}\n" for line in html.splitlines()) + "\n"

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

from fastapi import Response

from api.answers.problems import problem_of_unexpected
from api.site.page import View
from api.site.session import current_visitor
from api.stream.connection import connection_of
from api.stream.response import StreamResponse
from api.stream.slots import StreamSlots
from hookfast.errors import HookfastError

SLOTS: Final = 200
"""Live parts that one process has open at once; each queries the database every few seconds."""
_LIFETIME_SECONDS: Final = 300.0
"""Then the browser connects again, perhaps to another process or a newer version."""
_DELAY_PER_RENDERING: Final = 20
"""A page that takes 0.1 s of processor time, refreshed every three seconds, would use up the
process when thirty people watch it."""
_LONGEST_DELAY_SECONDS: Final = 30.0
_RETRY_MILLIS: Final = 2_000

Render = Callable[[], Awaitable[str]]


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

    slots: StreamSlots = view.request.app.state.live_slots
    tenant_id = None if view.visitor is None else view.visitor.principal.tenant_id
    return StreamResponse(messages(view, render, every=every), slots=slots, tenant_id=tenant_id)


async def messages(view: View, render: Render, *, every: float) -> AsyncGenerator[bytes]:
    """Yield the messages of a stream: the HTML when it has changed, else a comment."""
    clock = asyncio.get_running_loop().time
    ending = connection_of(view.request.scope).ending
    until, sent = clock() + _LIFETIME_SECONDS, None
    yield f"retry: {_RETRY_MILLIS}\n\n".encode("ascii")
    while clock() < until and not ending.is_set():
        began = clock()
        try:
            html = await render()
            # after it, which may take long: what a visitor no longer may see is not sent
            await current_visitor(view.request, view.site)
        except HookfastError:  # the session has ended, or the resource was deleted
            return
        except Exception as error:
            problem_of_unexpected(view.request, error)  # logs it; the browser reconnects
            return
        took = clock() - began
        yield _message(html) if html != sent else b":\n\n"
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


def _message(html: str) -> bytes:
    lines = "".join(f"data: {line}\n" for line in html.splitlines())
    return f"{lines}\n".encode()

"""One form, one effect: reloading the page that a form led to, or a second click, does it no second
time.

Every form carries the token of its page. It is claimed in the database before the form does its
work, and what came of that is noted after. So a process that dies in between leaves a claim of
which nobody knows what came, and whoever sends the form again is told to look: to do it twice would
send things twice or make a key that nobody has seen, and the new page has a new token anyway. What
was refused is freed. See docs/adr/0019-one-form-one-effect.md.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from http import HTTPStatus
from typing import Final

import structlog
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from sqlalchemy.ext.asyncio import AsyncConnection

from api.answers.problems import problem_of
from api.dashboard.site.page import HOME, View
from api.dashboard.site.session import LIFETIME
from hookfast.errors import HookfastError, InvalidInput
from hookfast.storage.accounts import sent_forms
from hookfast.storage.accounts.sent_forms import FormKey, Sent

_REPEATABLE: Final = frozenset(
    {
        f"{HOME}/sign-out",
        f"{HOME}/settings/theme",
        f"{HOME}/settings/tenant",
        # these count, and change nothing
        f"{HOME}/deliveries/actions",
        f"{HOME}/dead-letters/redrive",
    }
)
"""Forms that may be sent as often as one likes."""
_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{22}")
_PATIENCE: Final = timedelta(seconds=10)
"""How long a second click waits for the first: longer than most receivers take to agree."""
_LOOKED_EVERY_SECONDS: Final = 0.2

log = structlog.get_logger()


async def once(view: View, handle: Callable[[Request], Awaitable[Response]]) -> Response:
    """The answer to a form; to one that was sent before, where what came of it is. Raises
    InvalidInput for a form without a token, and what `handle` raises."""
    if view.request.scope["path"] in _REPEATABLE:
        return await handle(view.request)
    key = _key(view)
    async with view.context.database.write() as connection:
        earlier = await sent_forms.claim(connection, key, now=view.now, lifetime=LIFETIME)
    if earlier is not None:
        return _again(view, await _settled(view, key, earlier))
    try:
        response = await handle(view.request)
    except HookfastError as error:
        if problem_of(error).status < HTTPStatus.INTERNAL_SERVER_ERROR:
            await _free(view, key)
        raise  # otherwise it may have been done all the same
    except RequestValidationError:
        await _free(view, key)
        raise
    if response.status_code < HTTPStatus.BAD_REQUEST:
        await _settle(view, key, response)
    elif response.status_code < HTTPStatus.INTERNAL_SERVER_ERROR:
        await _free(view, key)
    return response


def _key(view: View) -> FormKey:
    token = view.form.get("once", "")
    if view.visitor is None or _TOKEN.fullmatch(token) is None:
        raise InvalidInput("This form is too old. Go back, reload the page, and send it again.")
    return FormKey(
        session_sha256=view.visitor.session.token_sha256,
        token=token,
        path=view.request.scope["path"],
    )


async def _settled(view: View, key: FormKey, earlier: Sent) -> Sent:
    """What came of the first time, for which a second click waits."""
    clock = asyncio.get_running_loop().time
    until = clock() + (earlier.sent_at + _PATIENCE - view.now).total_seconds()
    known: Sent | None = earlier
    while known is not None and known.led_to is None and clock() < until:
        await asyncio.sleep(_LOOKED_EVERY_SECONDS)
        async with view.context.database.read() as connection:
            known = await sent_forms.find(connection, key)
    return known or earlier


def _again(view: View, earlier: Sent) -> Response:
    if earlier.led_to is None:
        # a form without `back` is on a page below the one that lists, or shows, what it makes
        back = view.own(view.form.text("back") or view.path.rpartition("/")[0])
        return view.render("already_submitted.html", status=HTTPStatus.CONFLICT, back=back)
    told = "This was already done: the form was sent before."
    if earlier.shown_once:
        told += " What was shown once, such as a secret, is not shown again."
    return view.go(earlier.led_to, told)


async def _settle(view: View, key: FormKey, response: Response) -> None:
    """A page in answer to a form shows what no other page does; a redirect leads to it."""
    led_to = response.headers.get("location")
    shown_once = led_to is None

    async def note(connection: AsyncConnection) -> None:
        await sent_forms.settle(
            connection, key, led_to=led_to or view.result_at, shown_once=shown_once
        )

    await _noted(view, note)


async def _free(view: View, key: FormKey) -> None:
    async def note(connection: AsyncConnection) -> None:
        await sent_forms.free(connection, key)

    await _noted(view, note)


async def _noted(view: View, note: Callable[[AsyncConnection], Awaitable[None]]) -> None:
    """Note it, if that can be: the answer may hold a secret that only it will ever show."""
    try:
        async with view.context.database.write() as connection:
            await note(connection)
    except Exception as error:
        log.warning("The result of a form could not be stored.", error=type(error).__name__)

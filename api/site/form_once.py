"""Runs each submitted form once, even if the visitor clicks twice or reloads the answer.

Every form carries the token of its page. The token is claimed in the database before the form takes
effect, and the result is stored after it. A process that dies in between leaves a claim without a
result. If that form is sent again, the answer asks the visitor to check, because a second effect
could send deliveries twice or create a key that nobody has seen. A form that failed validation
releases its claim. See docs/adr/0019-form-once.md.
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
from api.site.page import View
from api.site.session import LIFETIME
from hookfast.errors import HookfastError, InvalidInput
from hookfast.storage.accounts import form_once
from hookfast.storage.accounts.form_once import FormKey, FormState

_REPEATABLE: Final = frozenset(
    {
        "/sign-out",
        "/settings/theme",
        "/settings/tenant",
        # these only count
        "/deliveries/actions",
        "/dead-letters/redrive",
    }
)
"""Forms that may be sent any number of times, below the site's home."""
_PREVIEW: Final = re.compile(r"/endpoints/\w+/subscriptions/(?:\w+/)?preview(?:-mapping)?")
"""The forms that try a filter or a mapping. They change nothing either."""
_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{22}")
_WAIT_FOR_FIRST: Final = timedelta(seconds=10)
"""How long a second click waits for the first: longer than most receivers take to be verified."""
_POLL_SECONDS: Final = 0.2

log = structlog.get_logger()


async def run_once(view: View, handle: Callable[[Request], Awaitable[Response]]) -> Response:
    """Handle a form, or redirect to the result if it was sent before. Raises InvalidInput for a
    form without a token, and the errors of `handle`."""
    path = view.request.scope["path"].removeprefix(view.site.home)
    if path in _REPEATABLE or _PREVIEW.fullmatch(path):
        return await handle(view.request)
    key = _form_key(view)
    async with view.context.database.write() as connection:
        earlier = await form_once.claim(connection, key, now=view.now, lifetime=LIFETIME)
    if earlier is not None:
        return _answer_repeated(view, await _await_result(view, key, earlier))
    try:
        response = await handle(view.request)
    except HookfastError as error:
        if problem_of(error).status < HTTPStatus.INTERNAL_SERVER_ERROR:
            await _release(view, key)
        raise  # after a server error the claim stays: the form may have taken effect
    except RequestValidationError:
        await _release(view, key)
        raise
    if response.status_code < HTTPStatus.BAD_REQUEST:
        await _store_result(view, key, response)
    elif response.status_code < HTTPStatus.INTERNAL_SERVER_ERROR:
        await _release(view, key)
    return response


def _form_key(view: View) -> FormKey:
    token = view.form.get("once", "")
    if view.visitor is None or _TOKEN.fullmatch(token) is None:
        raise InvalidInput("This form is too old. Go back, reload the page, and send it again.")
    return FormKey(
        session_sha256=view.visitor.session.token_sha256,
        token=token,
        path=view.request.scope["path"],
    )


async def _await_result(view: View, key: FormKey, earlier: FormState) -> FormState:
    """Wait for the result of the first submission, and return it if it comes in time."""
    clock = asyncio.get_running_loop().time
    until = clock() + (earlier.sent_at + _WAIT_FOR_FIRST - view.now).total_seconds()
    known: FormState | None = earlier
    while known is not None and known.led_to is None and clock() < until:
        await asyncio.sleep(_POLL_SECONDS)
        async with view.context.database.read() as connection:
            known = await form_once.find(connection, key)
    return known or earlier


def _answer_repeated(view: View, earlier: FormState) -> Response:
    if earlier.led_to is None:
        # a form without the field `back` is on a page directly below the page of its result
        back = view.site.path(view.form.text("back") or view.path.rpartition("/")[0])
        return view.render("already_submitted.html", status=HTTPStatus.CONFLICT, back=back)
    notice = "This was already done: the form was sent before."
    if earlier.shown_once:
        notice += " What was shown once, such as a secret, is not shown again."
    return view.redirect(earlier.led_to, notice)


async def _store_result(view: View, key: FormKey, response: Response) -> None:
    """Store where the result is: the redirect's target, or `view.result_path` for an answer that is
    a page of its own and may show a secret."""
    led_to = response.headers.get("location")
    await _try_to_write(
        view,
        lambda connection: form_once.set_result(
            connection,
            key,
            led_to=led_to or view.result_path or view.site.home,
            shown_once=led_to is None,
        ),
    )


async def _release(view: View, key: FormKey) -> None:
    await _try_to_write(view, lambda connection: form_once.remove(connection, key))


async def _try_to_write(view: View, write: Callable[[AsyncConnection], Awaitable[None]]) -> None:
    """Write in a transaction, and only log a failure: the answer may show a secret for the only
    time."""
    try:
        async with view.context.database.write() as connection:
            await write(connection)
    except Exception as error:
        log.warning("The result of a form could not be stored.", error=type(error).__name__)

"""Receive webhooks in Flask, with a decorator for the function that processes them.

@app.post("/webhooks")
@view(intake)
def paid(webhook: Webhook) -> None: ...
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, TypeAlias

from flask import Response, current_app, request
from flask.typing import ResponseReturnValue

from .errors import BodyTooLarge
from .intake import Answer, Intake, Webhook, log_unsent, problem, reject_generator

Result: TypeAlias = ResponseReturnValue | None
Handler: TypeAlias = Callable[[Webhook], Result | Awaitable[Result]]


def view(
    intake: Intake, *, max_body_bytes: int = 1_048_576
) -> Callable[[Handler], Callable[[], Response]]:
    """Return a decorator for a view that verifies requests and calls the handler once per message.

    The handler returns None, a short text, or what else a Flask view may return (a dict, a
    Response, a tuple with a status): the response is 2xx, now and whenever the message is sent
    again (with the text). After an exception, or a status other than 2xx, the message is not done,
    and is processed again when it is sent again. A handler that returned did its work: if its
    result cannot be sent, that is logged, and the response is 204. Bodies over `max_body_bytes` get
    a 413.
    """

    def decorate(handler: Handler) -> Callable[[], Response]:
        reject_generator(handler)

        @wraps(handler)
        def receive() -> Response:
            body = _body(max_body_bytes)
            if body is None:
                return _response(problem(BodyTooLarge(f"the body exceeds {max_body_bytes} bytes")))
            opened = intake.open(request.headers, body)
            if isinstance(opened, Answer):
                return _response(opened)
            try:
                result = _call(handler, opened)
            except BaseException:
                intake.abandon(opened)
                raise
            answer = _rendered(result, opened)
            if not isinstance(answer, Response):
                return _response(intake.finish(opened, answer))
            if 200 <= answer.status_code < 300:
                intake.finish(opened)
            else:
                intake.abandon(opened)
            return answer

        return receive

    return decorate


def _body(max_bytes: int) -> bytes | None:
    body = bytearray()
    while chunk := request.stream.read(min(65_536, max_bytes + 1 - len(body))):
        body += chunk
        if len(body) > max_bytes:  # counted while reading: a chunked body has no length
            return None
    return bytes(body)


def _call(handler: Handler, webhook: Webhook) -> Any:
    result = current_app.ensure_sync(handler)(webhook)
    if inspect.isawaitable(result):
        raise TypeError("the handler returned an awaitable, so its work is not done: use async def")
    return result


def _rendered(result: Any, webhook: Webhook) -> Response | str | bytes | None:
    """Return the response that Flask makes of a handler's result, or the result for
    `Intake.finish`. None if it cannot be sent."""
    if result is None or isinstance(result, str | bytes):
        return result
    try:
        return current_app.make_response(result)
    except Exception as error:  # whatever the result's own methods raise
        log_unsent(result, webhook, error)
        return None


def _response(answer: Answer) -> Response:
    return Response(answer.body, status=answer.status, headers=dict(answer.headers))

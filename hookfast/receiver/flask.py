"""Receive webhooks in Flask, with a decorator for the function that processes them.

@app.post("/webhooks")
@view(intake)
def paid(webhook: Webhook) -> None: ...
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeAlias

from flask import Response, request

from .errors import BodyTooLarge
from .intake import Answer, Intake, Webhook, problem

Result: TypeAlias = str | Response | None


def view(
    intake: Intake, *, max_body_bytes: int = 1_048_576
) -> Callable[[Callable[[Webhook], Result]], Callable[[], Response]]:
    """Return a decorator for a view that verifies requests and calls the handler once per message.

    The handler returns None or a short text: the response is 2xx, now and whenever the message is
    sent again. After an exception, or a Response that is not 2xx, the message is not done, and is
    processed again when it is sent again. Bodies over `max_body_bytes` get a 413.
    """

    def decorate(handler: Callable[[Webhook], Result]) -> Callable[[], Response]:
        @wraps(handler)
        def receive() -> Response:
            body = _body(max_body_bytes)
            if body is None:
                return _response(problem(BodyTooLarge(f"the body exceeds {max_body_bytes} bytes")))
            opened = intake.open(request.headers, body)
            if isinstance(opened, Answer):
                return _response(opened)
            try:
                result = handler(opened)
            except BaseException:
                intake.abandon(opened)
                raise
            if isinstance(result, Response):
                if 200 <= result.status_code < 300:
                    intake.finish(opened)
                else:
                    intake.abandon(opened)
                return result
            return _response(intake.finish(opened, (result or "").encode()))

        return receive

    return decorate


def _body(max_bytes: int) -> bytes | None:
    body = bytearray()
    while chunk := request.stream.read(min(65_536, max_bytes + 1 - len(body))):
        body += chunk
        if len(body) > max_bytes:  # counted while reading: a chunked body has no length
            return None
    return bytes(body)


def _response(answer: Answer) -> Response:
    return Response(answer.body, status=answer.status, headers=dict(answer.headers))

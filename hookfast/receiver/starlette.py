"""Receive webhooks in Starlette and FastAPI, with a decorator for the function that processes them.

@app.post("/webhooks")
@endpoint(intake)
async def paid(webhook: Webhook) -> None: ...
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

import anyio
import anyio.to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from .errors import BodyTooLarge
from .intake import Answer, Intake, Webhook, log_unsent, problem, reject_generator

Result: TypeAlias = str | bytes | Mapping[str, Any] | Sequence[Any] | Response | None
Handler: TypeAlias = Callable[[Webhook], Awaitable[Result] | Result]

_T = TypeVar("_T")


def endpoint(
    intake: Intake, *, max_body_bytes: int = 1_048_576
) -> Callable[[Handler], Callable[[Request], Awaitable[Response]]]:
    """Return a decorator for a route that verifies requests and calls the handler once per message.

    The handler (async, or a plain function, which runs in a thread) returns None, a short text,
    JSON or a Response: the response is 2xx, now and whenever the message is sent again (with the
    text). After an exception, or a Response that is not 2xx, the message is not done, and is
    processed again when it is sent again. A handler that returned did its work: if its result
    cannot be sent, that is logged, and the response is 204. Bodies over `max_body_bytes` get a 413.
    """

    def decorate(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        reject_generator(handler)

        async def receive(request: Request) -> Response:
            body = await _body(request, max_body_bytes)
            if body is None:
                return _response(problem(BodyTooLarge(f"the body exceeds {max_body_bytes} bytes")))
            opened = await _in_thread(partial(intake.open, request.headers, body))
            if isinstance(opened, Answer):
                return _response(opened)
            try:
                result = await _call(handler, opened)
            except BaseException:  # including cancellation: the message is not done
                await _in_thread(partial(intake.abandon, opened))
                raise
            answer = _rendered(result, opened)
            if not isinstance(answer, Response):
                return _response(await _in_thread(partial(intake.finish, opened, answer)))
            done = 200 <= answer.status_code < 300
            await _in_thread(partial(intake.finish if done else intake.abandon, opened))
            return answer

        # For the route's name; functools.wraps would show the handler's parameters to FastAPI.
        receive.__name__ = getattr(handler, "__name__", receive.__name__)
        receive.__doc__ = handler.__doc__
        return receive

    return decorate


async def _body(request: Request, max_bytes: int) -> bytes | None:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:  # counted while reading: a chunked body has no length
            return None
    return bytes(body)


async def _call(handler: Handler, webhook: Webhook) -> Any:
    if inspect.iscoroutinefunction(handler):
        return await handler(webhook)
    called = await anyio.to_thread.run_sync(handler, webhook)
    return await called if inspect.isawaitable(called) else called


def _rendered(result: Any, webhook: Webhook) -> Response | str | bytes | None:
    """Return the response of a handler's result, or the result for `Intake.finish`. None if it
    cannot be sent."""
    if result is None or isinstance(result, Response | str | bytes):
        return result
    try:
        return JSONResponse(result)
    except Exception as error:  # whatever the result's own methods raise
        log_unsent(result, webhook, error)
        return None


async def _in_thread(call: Callable[[], _T]) -> _T:
    # In a thread, because a store may wait for its database. Shielded, because a cancelled request
    # must not lose a new claim, or the record that its work is done.
    results: list[_T] = []
    with anyio.CancelScope(shield=True):
        results.append(await anyio.to_thread.run_sync(call))
    return results[0]


def _response(answer: Answer) -> Response:
    return Response(answer.body, status_code=answer.status, headers=dict(answer.headers))

"""The route class of every `/v1` route: it authenticates first, then rejects unknown or repeated
query parameters, NUL characters, and bodies that are not strict JSON. It answers with numbers as
they were written.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from functools import wraps
from typing import Annotated, Any, ClassVar, get_args, get_origin

from fastapi import Depends, Request, Response, params
from fastapi.dependencies.models import Dependant
from fastapi.dependencies.utils import get_flat_params
from fastapi.routing import APIRoute
from starlette.datastructures import QueryParams

from api.access.authentication import authenticate
from api.answers.problem_responses import problem_responses
from api.answers.problems import UnsupportedMediaType
from api.context.context import Context
from api.http.prefix_router import PrefixRouter
from api.http.request_body import body_to_parse
from hookfast.errors import InvalidInput
from hookfast.inbox.media_type import is_utf_8
from hookfast.strict_json import parser
from hookfast.strict_json.text import to_text

Handler = Callable[[Request], Coroutine[Any, Any, Response]]
Endpoint = Callable[..., Coroutine[Any, Any, Any]]


class StrictRoute(APIRoute):
    """A route that authenticates, and checks the query and the body strictly. A tenant's requests
    to read wait for one another."""

    takes_turns: ClassVar[bool] = True

    def __init__(self, path: str, endpoint: Endpoint, **options: Any) -> None:
        super().__init__(path, self._with_exact_answer(endpoint), **options)

    def _with_exact_answer(self, endpoint: Endpoint) -> Endpoint:
        """Return the endpoint with its result as a finished response. FastAPI would let pydantic
        write it, which makes strings of the decimals in stored JSON."""

        @wraps(endpoint)
        async def answer(**arguments: Any) -> Any:
            result = await endpoint(**arguments)
            if self.response_field is None or isinstance(result, Response):
                return result
            text = to_text(self.response_field.serialize(result, mode="python"))
            response = Response(text, self.status_code or 200, media_type="application/json")
            for parameter in arguments.values():
                if isinstance(parameter, Response):  # the status and headers that it was given
                    response.status_code = parameter.status_code or response.status_code
                    response.headers.update(parameter.headers)
            return response

        return answer

    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()
        known = known_query(self.dependant)
        takes_json = self.body_field is not None
        needs_json = self.body_field is not None and self.body_field.field_info.is_required()
        in_turns = self.takes_turns and self.methods == {"GET"}

        async def strict(request: Request) -> Response:
            await authenticate(request)
            check_query(request.query_params, known)
            if takes_json:
                # created before the body is read, which is possible only once
                request = _JsonRequest(request.scope, request.receive)
                if needs_json or await request.body():
                    await request.parse()
            if not in_turns:
                return await handle(request)
            context: Context = request.app.state.context
            async with context.turns.of(request.state.principal.tenant_id):
                return await handle(request)

        return strict


class WaitingRoute(StrictRoute):
    """A route whose requests may wait for something, and for no turn."""

    takes_turns = False


def router(tag: str, route_class: type[StrictRoute] = StrictRoute) -> PrefixRouter:
    """Return a router for one resource: strict routes under `/v1`, with documented problems."""
    return PrefixRouter(
        prefix="/v1", tags=[tag], route_class=route_class, responses=problem_responses()
    )


async def json_body(request: Request) -> bytes:
    """Return the body's bytes if its Content-Type is JSON. For routes that parse it themselves.

    An empty body of any type is left to the parser. Raises UnsupportedMediaType and Unavailable.
    """
    raw = await body_to_parse(request)
    content_type = request.headers.get("content-type", "")
    main, _, sub = content_type.partition(";")[0].strip().lower().partition("/")
    if raw and not (main == "application" and (sub == "json" or sub.endswith("+json"))):
        raise UnsupportedMediaType("Send the body as JSON, with `Content-Type: application/json`.")
    if raw and not is_utf_8(content_type):
        raise UnsupportedMediaType(
            "JSON is in UTF-8 (RFC 8259, section 8.1); send `Content-Type: application/json` "
            "without another `charset`."
        )
    return raw


RawJson = Annotated[bytes, Depends(json_body)]
"""The route parameter with the body's exact bytes (declared as JSON, not parsed)."""


class _JsonRequest(Request):
    """A request whose JSON body was parsed strictly before FastAPI reads it."""

    _document: parser.JsonValue = None

    async def parse(self) -> None:
        self._document = parser.parse(await json_body(self))

    async def json(self) -> parser.JsonValue:
        return self._document


def known_query(dependant: Dependant) -> dict[str, bool]:
    """Return the names of a route's query parameters, each with whether it may be repeated."""
    return {
        parameter.alias: _is_list(parameter.field_info.annotation)
        for parameter in get_flat_params(dependant)
        if isinstance(parameter.field_info, params.Query)
    }


def check_query(given: QueryParams, known: Mapping[str, bool]) -> None:
    """Raise InvalidInput for query parameters that are unknown, wrongly repeated or contain NUL."""
    for name, value in given.multi_items():
        if name not in known:
            known_names = ", ".join(sorted(known)) or "none"
            raise InvalidInput.at(name, f"unknown query parameter; this path has: {known_names}")
        if not known[name] and len(given.getlist(name)) > 1:
            raise InvalidInput.at(name, "this query parameter is repeated; keep one")
        if "\x00" in value:
            raise InvalidInput.at(name, "a NUL character is not allowed")


def _is_list(annotation: Any) -> bool:
    return list in (get_origin(annotation), *map(get_origin, get_args(annotation)))

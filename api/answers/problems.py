"""Errors as problem details (RFC 9457, `application/problem+json`).

Every error answer has the members `type` (a URN that ends in the code), `title`, `status`,
`detail` and `code`, and the `request_id`; input errors add `errors`, a list of `{"pointer",
"detail"}`. Nothing private is ever in one, and of what the caller sent at most the names of members
and its own `X-Request-Id`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import asyncpg
import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field, ValidationError
from sqlalchemy.exc import DBAPIError
from starlette.exceptions import HTTPException
from starlette.types import Scope

from api.answers.json_pointer import join
from api.answers.request_id import request_id
from hookfast.errors import (
    Conflict,
    FieldError,
    Forbidden,
    HookfastError,
    InvalidInput,
    NotFound,
    TooLarge,
    Unauthenticated,
    Unavailable,
)
from hookfast.inbox import Refused, UnsupportedContentType
from hookfast.inbox.reading import UnreadablePayload
from hookfast.storage.database.availability import AWAY, passes, sqlstate

MAX_FIELD_ERRORS = 20
_MAX_POINTER = 200

log = structlog.get_logger()


class UnsupportedMediaType(HookfastError):
    """The body is not declared as JSON. Send `Content-Type: application/json`."""

    code = "unsupported_media_type"


class BodyTimeout(HookfastError):
    """The body took too long to arrive; nothing was stored. Send it again."""

    code = "body_timeout"


class TooManyRequests(HookfastError):
    """Over a limit; nothing was done. Try again in `retry_after` seconds."""

    code = "too_many_requests"

    def __init__(self, message: str, *, code: str | None = None, retry_after: int) -> None:
        super().__init__(message, code=code)
        self.retry_after = retry_after


_STATUSES: Mapping[type[HookfastError], int] = {
    InvalidInput: 422,
    TooLarge: 413,
    Unauthenticated: 401,
    Forbidden: 403,
    NotFound: 404,
    Conflict: 409,
    Unavailable: 503,
    UnsupportedMediaType: 415,
    BodyTimeout: 408,
    TooManyRequests: 429,
    UnreadablePayload: 400,
    Refused: 401,
    UnsupportedContentType: 415,
}


class FieldProblem(BaseModel):
    """One thing wrong with the input."""

    pointer: str = Field(
        description="JSON pointer (RFC 6901) into the body, or a parameter's name."
    )
    detail: str = Field(description="What is wrong and what would be right.")


class ProblemModel(BaseModel):
    """An error answer (RFC 9457)."""

    type: str = Field(description="URN of the kind of problem.")
    title: str = Field(description="The HTTP status in words.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What happened and what to do, for people; may change.")
    code: str = Field(description="What happened, for programs; stable.")
    errors: list[FieldProblem] | None = Field(
        None, description="Input errors: each thing that is wrong."
    )
    instance: str | None = Field(None, description="Names this occurrence in the server's log.")
    request_id: str | None = Field(
        None, description="The request's id, as in the header `X-Request-Id`."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One error answer before it is written out."""

    status: int
    code: str
    detail: str
    errors: tuple[FieldError, ...] = ()
    instance: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """The members of the JSON document."""
        document: dict[str, Any] = {
            "type": f"urn:hookfast:problem:{self.code}",
            "title": _title(self.status),
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
        }
        if self.errors:
            document["errors"] = [
                {"pointer": error.pointer[:_MAX_POINTER], "detail": error.detail}
                for error in self.errors[:MAX_FIELD_ERRORS]
            ]
        if self.instance is not None:
            document["instance"] = self.instance
        return document

    def response(self, scope: Scope) -> JSONResponse:
        """The answer to the request of this ASGI scope, with the request's id."""
        document = self.document()
        name = request_id(scope)
        if name is not None:
            document["request_id"] = name
        return JSONResponse(
            document,
            status_code=self.status,
            headers=dict(self.headers),
            media_type="application/problem+json",
        )


def problem_of(error: HookfastError) -> Problem:
    """The problem that tells a caller of `error`. Errors that are not the caller's to know about
    (a misconfiguration) become a bare 500."""
    status = next((_STATUSES[kind] for kind in type(error).__mro__ if kind in _STATUSES), None)
    if status is None:
        return _unexpected(error)
    headers = {}
    if isinstance(error, Unauthenticated):
        headers["WWW-Authenticate"] = 'Bearer realm="hookfast"'
    if isinstance(error, Refused):
        headers["WWW-Authenticate"] = 'Signature realm="hookfast"'
    if isinstance(error, Unavailable | TooManyRequests):
        headers["Retry-After"] = str(error.retry_after)
    return Problem(
        status=status,
        code=error.code,
        detail=error.message,
        errors=error.errors if isinstance(error, InvalidInput) else (),
        headers=headers,
    )


def invalid_request(error: RequestValidationError) -> InvalidInput:
    """What FastAPI found wrong with a request: pydantic's messages, never its copy of the input."""
    errors = error.errors()[:MAX_FIELD_ERRORS]
    return _invalid(_of_request(each, error.body) for each in errors)


def invalid_members(error: ValidationError, given: Any) -> InvalidInput:
    """What pydantic found wrong with what was `given` for a model, likewise."""
    errors = error.errors(include_url=False, include_context=False, include_input=False)
    return _invalid(
        FieldError(_pointer(each, each["loc"], given), _detail(each))
        for each in errors[:MAX_FIELD_ERRORS]
    )


def _invalid(errors: Iterable[FieldError]) -> InvalidInput:
    found = tuple(dict.fromkeys(errors))
    return InvalidInput("The request does not have the expected form.", errors=found)


def install(app: FastAPI) -> None:
    """Make every error `app` can answer with a problem document."""
    app.add_exception_handler(HookfastError, _on_hookfast_error)
    app.add_exception_handler(RequestValidationError, _on_validation_error)
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_exception_handler(DBAPIError, _on_database_error)
    app.add_exception_handler(asyncpg.PostgresError, _on_database_error)
    for kind in AWAY:
        app.add_exception_handler(kind, _on_database_error)
    app.add_exception_handler(Exception, _on_unexpected)


async def _on_hookfast_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HookfastError)  # noqa: S101 - narrows for the type checker
    return problem_of(error).response(request.scope)


async def _on_validation_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - narrows for the type checker
    return problem_of(invalid_request(error)).response(request.scope)


async def _on_http_exception(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101 - narrows for the type checker
    phrase = _title(error.status_code)
    details = {
        404: "There is nothing at this path.",
        405: "This path does not have this method; see the Allow header.",
    }
    return Problem(
        status=error.status_code,
        code=phrase.lower().replace(" ", "_"),
        detail=details.get(error.status_code, f"{phrase}."),
        headers=error.headers or {},
    ).response(request.scope)


async def _on_database_error(request: Request, error: Exception) -> JSONResponse:
    return problem_for(request, error).response(request.scope)


async def _on_unexpected(request: Request, error: Exception) -> JSONResponse:
    return _unexpected(error).response(request.scope)


def problem_for(request: Request, error: Exception) -> Problem:
    """The problem that tells of an error nobody raised on purpose; logs it."""
    if not passes(error):
        return _unexpected(error)
    # without the traceback: SQLAlchemy's messages repeat the statement's parameters
    # whether a commit that was under way arrived is not known
    state = sqlstate(error) or None
    what = "The database is away." if state is None else "The database cannot do this now."
    log.warning(what, method=request.method, error=type(error).__name__, sqlstate=state)
    return problem_of(Unavailable(f"{what} Send it again."))


def _unexpected(error: Exception) -> Problem:
    instance = uuid.uuid4().urn
    log.error("A request failed unexpectedly.", instance=instance, exc_info=error)
    return Problem(
        status=500,
        code="internal_error",
        detail="Something went wrong here; it is not your request. The log knows it by `instance`.",
        instance=instance,
    )


def _title(status: int) -> str:
    # RFC 9110 renamed these two; Python's names depend on its version
    renamed = {413: "Content Too Large", 422: "Unprocessable Content"}
    return renamed.get(status) or HTTPStatus(status).phrase


def _of_request(error: Any, body: Any) -> FieldError:
    place, *location = error["loc"]
    if place == "body":
        return FieldError(_pointer(error, location, body), _detail(error))
    return FieldError(".".join(str(part) for part in location), _detail(error))


def _pointer(error: Any, location: Sequence[str | int], given: Any) -> str:
    """Where in what was given the error is. Of a union pydantic also says which of its types each
    error is about: that is no place in the input."""
    pointer = ""
    for part in location:
        try:
            given = given[part]
        except (LookupError, TypeError):
            if error["type"] != "missing" or part != location[-1]:
                continue
        pointer = join(pointer, part)
    return pointer


_DETAILS: Mapping[str, str] = {
    "extra_forbidden": "there is no such member; remove it",
    "missing": "is required",
    # whoever sends JSON need not know what Python calls it
    "dict_type": "must be a JSON object",
    "list_type": "must be a JSON array",
    "model_attributes_type": "must be a JSON object",
    "model_type": "must be a JSON object",
}


def _detail(error: Any) -> str:
    detail: str = _DETAILS.get(error["type"]) or error["msg"]
    return detail.removeprefix("Value error, ")

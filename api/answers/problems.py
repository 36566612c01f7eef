"""Errors as problem details (RFC 9457, `application/problem+json`).

Every error response has the members `type` (a URN that ends in the code), `title`, `status`,
`detail`, `code` and `request_id`; input errors add `errors`, a list of `{"pointer", "detail"}`. No
problem contains private data, and it repeats at most the member names and the `X-Request-Id` that
the caller sent.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field, ValidationError
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.types import Scope

from api.answers.request_id import request_id
from hookfast.errors import (
    Conflict,
    FieldError,
    Forbidden,
    HookfastError,
    InvalidInput,
    NotFound,
    TooLarge,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
    join_pointer,
)
from hookfast.inbox import (
    RequestRejected,
    TooManyHops,
    UnsupportedContentType,
)
from hookfast.outage_log import DATABASE
from hookfast.storage.database.availability import is_transient, sqlstate

MAX_FIELD_ERRORS = 20
_MAX_POINTER = 200

log = structlog.get_logger()


class BadRequest(InvalidInput):
    """The request's head is malformed, or ambiguous. Correct the header that `errors` names."""

    code = "bad_request"


class UnsupportedMediaType(HookfastError):
    """The body is not declared as JSON, or is compressed. Send it as `application/json`, as it
    is."""

    code = "unsupported_media_type"


class BodyTimeout(HookfastError):
    """The body took too long to arrive; nothing was stored. Send the request again."""

    code = "body_timeout"


_STATUSES: Mapping[type[HookfastError], int] = {
    BadRequest: 400,
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
    TooManyHops: 508,
    RequestRejected: 401,
    UnsupportedContentType: 415,
}


class FieldProblem(BaseModel):
    """One error in the input."""

    pointer: str = Field(
        description="JSON pointer (RFC 6901) into the body, or a parameter's name."
    )
    detail: str = Field(description="What is wrong, and what is expected.")


class ProblemModel(BaseModel):
    """An error response (RFC 9457)."""

    type: str = Field(description="URN of the kind of problem.")
    title: str = Field(description="The name of the HTTP status.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What happened and what to do, for people; may change.")
    code: str = Field(description="What happened, for programs; stable.")
    errors: list[FieldProblem] | None = Field(None, description="All errors found in the input.")
    instance: str | None = Field(
        None, description="Id of this occurrence, to find it in the server's log."
    )
    request_id: str | None = Field(
        None, description="The request's id, as in the header `X-Request-Id`."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """An error response before it is serialised."""

    status: int
    code: str
    detail: str
    errors: tuple[FieldError, ...] = ()
    instance: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """Return the members of the JSON document."""
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
        """Return the response to the request of this ASGI scope, with the request's id."""
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
    """Return the problem that reports `error` to the caller. Internal errors, such as a
    misconfiguration, become a 500 without details."""
    status = next((_STATUSES[kind] for kind in type(error).__mro__ if kind in _STATUSES), None)
    if status is None:
        return _unexpected(error)
    headers = {}
    if isinstance(error, Unauthenticated):
        headers["WWW-Authenticate"] = 'Bearer realm="hookfast"'
    if isinstance(error, RequestRejected):
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
    """Convert FastAPI's validation error: pydantic's messages, never its copy of the input."""
    errors = error.errors()[:MAX_FIELD_ERRORS]
    return _invalid(_request_error(each, error.body) for each in errors)


def invalid_members(error: ValidationError, given: Any) -> InvalidInput:
    """Convert pydantic's validation error about the input `given`, likewise without the input."""
    errors = error.errors(include_url=False, include_input=False)
    return _invalid(_member_error(each, each["loc"], given) for each in errors[:MAX_FIELD_ERRORS])


def _invalid(errors: Iterable[FieldError]) -> InvalidInput:
    found = tuple(dict.fromkeys(errors))
    return InvalidInput("The request does not have the expected form.", errors=found)


EXPECTED = (HookfastError, RequestValidationError, HTTPException, SQLAlchemyError)
"""Errors that are answered. Others are answered too, and then raised again."""


def install(app: FastAPI) -> None:
    """Make `app` answer every error with a problem document."""

    async def answer(request: Request, error: Exception) -> JSONResponse:
        return problem_of_any(request, error).response(request.scope)

    for kind in (*EXPECTED, Exception):
        app.add_exception_handler(kind, answer)


def problem_of_any(request: Request, error: Exception) -> Problem:
    """Return the problem that reports an error of any kind. Unforeseen errors are logged."""
    match error:
        case HookfastError():
            return problem_of(error)
        case RequestValidationError():
            return problem_of(invalid_request(error))
        case HTTPException():
            return _http_problem(error)
        case _:
            return problem_of_unexpected(request, error)


def _http_problem(error: HTTPException) -> Problem:
    phrase = _title(error.status_code)
    details = {
        404: "There is nothing at this path.",
        405: "This path does not support this method; see the Allow header.",
    }
    return Problem(
        status=error.status_code,
        code=phrase.lower().replace(" ", "_"),
        detail=details.get(error.status_code, f"{phrase}."),
        headers=error.headers or {},
    )


def problem_of_unexpected(request: Request, error: Exception) -> Problem:
    """Log an unforeseen error, such as the database's, and return the problem that reports it."""
    if not is_transient(error):
        return _unexpected(error)
    # Logged without the traceback: SQLAlchemy's messages repeat the statement's parameters.
    # Whether a commit in progress succeeded is not known.
    what, fields = "The database is away.", {}
    if state := sqlstate(error):
        what, fields = "The database cannot do this now.", {"sqlstate": state}
    DATABASE.failed(what, method=request.method, error=type(error).__name__, **fields)
    return problem_of(Unavailable(f"{what} Send it again."))


def _unexpected(error: Exception) -> Problem:
    instance = uuid.uuid4().urn
    log.error("A request failed unexpectedly.", instance=instance, exc_info=error)
    return Problem(
        status=500,
        code="internal_error",
        detail="The server failed; your request is not the cause. Its log has the error under "
        "`instance`.",
        instance=instance,
    )


def _title(status: int) -> str:
    # RFC 9110 renamed these two; Python's names depend on its version
    renamed = {413: "Content Too Large", 422: "Unprocessable Content"}
    return renamed.get(status) or HTTPStatus(status).phrase


def _request_error(error: Any, body: Any) -> FieldError:
    place, *location = error["loc"]
    if place == "body":
        return _member_error(error, location, body)
    return FieldError(".".join(str(part) for part in location), _detail(error))


def _member_error(error: Any, location: Sequence[str | int], given: Any) -> FieldError:
    pointer = _pointer(error, location, given)
    if error["type"] in _TAGS:
        # pydantic's location is the object whose kind it does not know
        return FieldError(
            join_pointer(pointer, error["ctx"]["discriminator"].strip("'")), _detail(error)
        )
    return FieldError(pointer, _detail(error))


def _pointer(error: Any, location: Sequence[str | int], given: Any) -> str:
    """Return the JSON pointer to the error in the input `given`. For a union, pydantic's location
    also names the type that was tried, which is no place in the input."""
    pointer = ""
    for part in location:
        try:
            given = given[part]
        except (LookupError, TypeError):
            if error["type"] != "missing" or part != location[-1]:
                continue
        pointer = join_pointer(pointer, part)
    return pointer


_TAGS = ("union_tag_not_found", "union_tag_invalid")

_DETAILS: Mapping[str, str] = {
    "extra_forbidden": "there is no such member; remove it",
    "missing": "is required",
    "union_tag_not_found": "is required",
    # JSON's words instead of Python's
    "dict_type": "must be a JSON object",
    "list_type": "must be a JSON array",
    "model_attributes_type": "must be a JSON object",
    "model_type": "must be a JSON object",
}


def _detail(error: Any) -> str:
    if error["type"] == "union_tag_invalid":
        return f"must be one of {error['ctx']['expected_tags']}"
    detail: str = _DETAILS.get(error["type"]) or error["msg"]
    return detail.removeprefix("Value error, ")

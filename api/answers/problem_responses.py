"""Error responses in the OpenAPI document: one component for each status, with its headers and an
example of each frequent problem. Operations refer to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from api.answers.problems import (
    BadRequest,
    BodyTimeout,
    Problem,
    UnsupportedMediaType,
    problem_of,
)
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
)

_PROBLEMS: Final[Mapping[int, tuple[str, Sequence[HookfastError]]]] = {
    400: (
        "The request's head is malformed or ambiguous; `errors` names the header.",
        [BadRequest.at("Authorization", "The header Authorization occurs 2 times; send it once.")],
    ),
    401: (
        "The request has no valid API key.",
        [
            Unauthenticated("Send an API key: `Authorization: Bearer hf_…`."),
            Unauthenticated("This API key is unknown, expired or revoked.", code="invalid_key"),
        ],
    ),
    403: (
        "The key's scope does not allow this.",
        [Forbidden("This needs a key with the scope operator or tenant; yours is tenant:read.")],
    ),
    404: (
        "Nothing has this id, or this key may not see it.",
        [NotFound("There is no such endpoint.")],
    ),
    408: (
        "The body took too long to arrive.",
        [BodyTimeout("The body did not arrive within 30 seconds.")],
    ),
    409: (
        "The request conflicts with the stored state.",
        [
            Conflict(
                "The endpoint is disabled, so nothing would be sent. Enable it first.",
                code="endpoint_disabled",
            )
        ],
    ),
    413: (
        "The body is too large.",
        [TooLarge("The body is larger than 262144 bytes, the maximum for this path.")],
    ),
    415: (
        "The body is not declared as JSON, or is compressed.",
        [
            UnsupportedMediaType("Send the body as JSON, with `Content-Type: application/json`."),
            UnsupportedMediaType(
                "Send the body as it is, without compression and `Content-Encoding`.",
                code="unsupported_content_encoding",
            ),
        ],
    ),
    422: (
        "The input is invalid; `errors` says where.",
        [
            InvalidInput(
                "The request does not have the expected form.",
                errors=(
                    FieldError("/url", "must be an https URL without credentials"),
                    FieldError("/evens", "there is no such member; remove it"),
                ),
            ),
            InvalidInput(
                "The URL has another scheme, host or port, to which requests would carry the "
                "credentials of this endpoint. Send them again with the URL, or null to remove "
                "them.",
                code="credentials_required",
                errors=(FieldError("/headers/X-Api-Key", "is required with this URL, or null"),),
            ),
        ],
    ),
    429: (
        "Too many requests; see `Retry-After`.",
        [
            TooManyRequests(
                "This API key or session made too many requests; see `RateLimit-Policy`.",
                code="rate_limited",
            )
        ],
    ),
    503: (
        "Something that Hookfast needs is away; see `Retry-After`.",
        [
            Unavailable("The database is away. Send it again."),
            Unavailable(
                "Too many deliveries are waiting. Nothing was stored; send it again later.",
                code="overloaded",
            ),
        ],
    ),
}
_HEADERS: Final = {
    "Retry-After": "Seconds to wait before the request is sent again.",
    "WWW-Authenticate": "How requests to this path authenticate themselves (RFC 9110).",
}


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the documentation of problem responses with these statuses (default: all)."""
    return {
        status: {
            "$ref": f"#/components/responses/{_name(status)}",
            "description": _PROBLEMS[status][0],  # FastAPI would replace it otherwise
        }
        for status in statuses or _PROBLEMS
    }


def problem_response(description: str, *errors: HookfastError) -> dict[str, Any]:
    """Return the documentation of a response that reports one of these errors, which have the same
    status."""
    problems = [problem_of(error) for error in errors]
    response: dict[str, Any] = {
        "description": description,
        "content": {
            "application/problem+json": {
                "schema": {"$ref": "#/components/schemas/Problem"},
                **_examples(problems),
            }
        },
    }
    if headers := problems[0].headers:
        response["headers"] = {
            name: {"description": _HEADERS[name], "schema": {"type": "string"}} for name in headers
        }
    return response


def problem_components() -> dict[str, Any]:
    """Return the components that `problem_responses` refers to."""
    return {
        _name(status): problem_response(description, *errors)
        for status, (description, errors) in _PROBLEMS.items()
    }


def _examples(problems: Sequence[Problem]) -> dict[str, Any]:
    values = {one.code: one.document() | {"request_id": "req-5f1e"} for one in problems}
    if len(values) == 1:
        return {"example": next(iter(values.values()))}
    return {"examples": {code: {"value": value} for code, value in values.items()}}


def _name(status: int) -> str:
    return f"Problem-{status}"

"""What the client makes of answers and of failed connections."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, datetime
from decimal import Decimal

import httpx2
import pytest

import hookfast_client
from hookfast_client import (
    ApiError,
    Conflict,
    ConnectionFailed,
    FieldError,
    Forbidden,
    HookfastError,
    InvalidInput,
    JobNotFinished,
    NotFound,
    RateLimited,
    TimedOut,
    TooLarge,
    Unauthenticated,
    Unavailable,
    UnexpectedAnswer,
    errors,
)
from hookfast_client.answer import connection_error, error_text, parse_answer, parse_retry_after

_NOW = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)
_URL = "http://hookfast.test"


def test_data_that_only_received_events_have_are_read() -> None:
    digits = "9" * 5_000
    content = f'{{"n": {digits}, "deep": {"[" * 200}{"]" * 200}, "text": "\\u0000\\ud800"}}'
    value = parse_answer(200, {}, content.encode(), url=_URL).value
    assert (value["n"], value["text"]) == (Decimal(digits), "\0\ud800")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, ApiError),
        (401, Unauthenticated),
        (403, Forbidden),
        (404, NotFound),
        (409, Conflict),
        (413, TooLarge),
        (415, ApiError),
        (422, InvalidInput),
        (429, RateLimited),
        (500, ApiError),
        (502, Unavailable),
        (503, Unavailable),
        (504, Unavailable),
    ],
)
def test_a_problem_is_an_error_of_its_status(status: int, kind: type[ApiError]) -> None:
    problem = (
        b'{"detail": "No.", "code": "why", "request_id": "req_1", "instance": "urn:uuid:1",'
        b'"errors": [{"pointer": "/url", "detail": "must be https", "more": 1}, "odd"]}'
    )
    with pytest.raises(ApiError) as failed:
        parse_answer(status, {"retry-after": "7"}, problem, url=_URL)
    error = failed.value
    assert type(error) is kind
    assert (error.status, error.code, error.detail) == (status, "why", "No.")
    assert error.errors == (FieldError("/url", "must be https"),)
    assert (error.request_id, error.instance, error.retry_after) == ("req_1", "urn:uuid:1", 7.0)
    assert str(error) == f"{status} why: No.\n  /url: must be https\n  request id: req_1"


@pytest.mark.parametrize(
    "content", [b'{"detail": 1}', b'{"detail": "No.", "errors": 5, "code": null}', b"[" * 100_000]
)
def test_a_strange_problem_is_an_error_still(content: bytes) -> None:
    with pytest.raises(HookfastError):
        parse_answer(422, {"x-request-id": "req_1"}, content, url=_URL)


def test_an_answer_without_body_is_a_success_only_with_204() -> None:
    assert parse_answer(204, {}, b"", url=_URL).value is None
    with pytest.raises(UnexpectedAnswer):
        parse_answer(200, {}, b"", url=_URL)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, None),
        ("0", 0.0),
        ("120", 120.0),
        ("Wed, 25 Nov 2026 12:00:30 GMT", 30.0),
        ("Wed, 25 Nov 2026 12:00:30 -0000", 30.0),
        ("Wed, 25 Nov 2026 11:00:00 GMT", 0.0),
        ("soon", None),
        ("-1", None),
        ("1.5", None),
        ("٣", None),
        ("", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(text: str | None, seconds: float | None) -> None:
    assert parse_retry_after(text, now=_NOW) == seconds


@pytest.mark.parametrize(
    ("error", "kind", "unknown"),
    [
        (httpx2.ConnectError("Connection refused"), ConnectionFailed, False),
        (httpx2.ConnectTimeout(""), TimedOut, False),
        (httpx2.PoolTimeout(""), TimedOut, False),
        (httpx2.ProxyError("407"), ConnectionFailed, False),
        (httpx2.ReadTimeout(""), TimedOut, True),
        (httpx2.WriteTimeout(""), TimedOut, True),
        (httpx2.ReadError(""), ConnectionFailed, True),
        (httpx2.WriteError(""), ConnectionFailed, True),
        (httpx2.RemoteProtocolError("Server disconnected"), ConnectionFailed, True),
    ],
)
def test_only_what_was_never_sent_has_a_known_outcome(
    error: httpx2.TransportError, kind: type[ConnectionFailed], unknown: bool
) -> None:
    found = connection_error(error, url=_URL)
    assert (type(found), found.outcome_unknown) == (kind, unknown)
    assert _URL in str(found)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (httpx2.ReadError(""), "read error"),
        (httpx2.RemoteProtocolError(" "), "remote protocol error"),
        (httpx2.RemoteProtocolError("It ended."), "It ended"),
    ],
)
def test_error_text_is_never_empty_and_has_no_full_stop(error: Exception, words: str) -> None:
    assert error_text(error) == words


@pytest.mark.parametrize(
    "error",
    [
        HookfastError("x"),
        ConnectionFailed("x", outcome_unknown=True),
        TimedOut("x", outcome_unknown=False),
        UnexpectedAnswer("x", status=200),
        JobNotFinished("x", job={"id": "job_1"}),  # type: ignore[typeddict-item]
        RateLimited("x", status=429, code="y", retry_after=3.0),
    ],
)
def test_errors_survive_a_process_border(error: HookfastError) -> None:
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):  # noqa: S301
        assert type(other) is type(error)
        assert str(other) == str(error)
        assert vars(other) == vars(error)


def test_every_error_is_exported_and_drawn_in_the_tree() -> None:
    found = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, Exception)
    }
    assert found <= set(hookfast_client.__all__)
    assert all(name in (errors.__doc__ or "") for name in found)
    assert hookfast_client.__all__ == sorted(hookfast_client.__all__)

"""Why Temporal does not answer, in words, and which lines of its SDK are written."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest
from temporalio.service import RPCError, RPCStatusCode

from hookfast.temporal.availability import (
    RepeatedRequests,
    connect_failure_in_words,
    failure_in_words,
)

RETRY = (
    'Status { code: Unavailable, message: "tcp connect error", source: Some(tonic::transport::'
    'Error(Transport, ConnectError("tcp connect error", 127.0.0.1:7233))) }'
)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (RPCStatusCode.UNAVAILABLE, "nothing answers at its address"),
        (RPCStatusCode.DEADLINE_EXCEEDED, "it does not answer within 5 seconds"),
        (RPCStatusCode.CANCELLED, "it does not answer within 5 seconds"),
        (RPCStatusCode.NOT_FOUND, "it has no namespace 'hookfast'; create it"),
        (RPCStatusCode.PERMISSION_DENIED, "it denies access to the namespace 'hookfast'; renew"),
        (RPCStatusCode.UNAUTHENTICATED, "it denies access to the namespace 'hookfast'; renew"),
        (RPCStatusCode.INTERNAL, "INTERNAL: what it said"),
    ],
)
def test_failed_check_says_what_to_do(status: RPCStatusCode, words: str) -> None:
    error = RPCError("what it said", status, b"")
    assert failure_in_words(error, namespace="hookfast").startswith(words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('ConnectError(Os { code: 111, message: "Connection refused" })', "nothing answers at"),
        ("dns error: failed to lookup address information", "nothing answers at its address"),
        ('Status { code: Unauthenticated, message: "no key" }', "it denies access to its service"),
        ('Transport, Custom { message: "invalid certificate" }', "no connection: invalid cert"),
        ("something else", "no connection: something else"),
    ],
)
def test_failed_connection_says_what_to_do(text: str, words: str) -> None:
    assert connect_failure_in_words(RuntimeError(text)).startswith(words)


def record(target: str, **fields: str) -> logging.LogRecord:
    made = logging.LogRecord("temporalio", logging.WARNING, "", 0, "a line", (), None)
    made.temporal_log = SimpleNamespace(target=target, fields=fields)
    return made


@pytest.mark.parametrize(
    ("line", "written"),
    [
        (record("temporalio_client::retry", error=RETRY), False),
        (record("temporalio_sdk_core::worker::activities", error=RETRY), False),
        (record("temporalio_sdk_core::worker", details="Status { code: DeadlineExceeded }"), False),
        (record("temporalio_sdk_core::worker::workflow", failure="Nondeterminism"), True),
        (record("temporalio_sdk_core::worker::workflow", error="PermissionDenied"), True),
        (record("temporalio_sdk_core::worker"), True),
        (logging.LogRecord("temporalio", logging.WARNING, "", 0, "Python's", (), None), True),
    ],
)
def test_only_lines_about_repeated_requests_are_dropped(
    line: logging.LogRecord, written: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "level", logging.INFO)
    root.manager._clear_cache()  # type: ignore[attr-defined]
    assert RepeatedRequests().filter(line) is written

    monkeypatch.setattr(root, "level", logging.DEBUG)
    root.manager._clear_cache()  # type: ignore[attr-defined]
    assert RepeatedRequests().filter(line) is True

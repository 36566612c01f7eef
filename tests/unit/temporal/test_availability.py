"""Why Temporal does not answer, in words, and which lines of its SDK are written."""

from __future__ import annotations

import asyncio
import logging
import socket
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs
from temporalio.service import RPCError, RPCStatusCode

from hookfast.temporal.availability import (
    RepeatedRequests,
    connect_failure_in_words,
    failure_in_words,
)
from hookfast.temporal.connection import connect_when_up
from tests.support.waiting import PATIENCE

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


@pytest.mark.anyio
async def test_silent_temporal_does_not_delay_the_stop_of_a_worker_that_connects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # nobody accepts or answers
        monkeypatch.setenv("TEMPORAL_ADDRESS", f"127.0.0.1:{silent.getsockname()[1]}")
        stop = asyncio.Event()
        with capture_logs() as lines:
            connecting = asyncio.create_task(connect_when_up("off", stop))
            await asyncio.sleep(0.2)
            stop.set()
            async with asyncio.timeout(PATIENCE):
                assert await connecting is None
    assert lines == []

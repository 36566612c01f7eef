"""Errors of connections, in words that fit into a sentence."""

from __future__ import annotations

import httpx2
import pytest

from hookfast.cli.remote.client import error_text


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (httpx2.ReadError(""), "read error"),
        (httpx2.RemoteProtocolError(" "), "remote protocol error"),
        (
            httpx2.RemoteProtocolError("Server disconnected without sending a response."),
            "Server disconnected without sending a response",
        ),
        (httpx2.ConnectError("[Errno 111] Connection refused"), "[Errno 111] Connection refused"),
    ],
)
def test_an_error_says_something_and_ends_no_sentence(error: Exception, words: str) -> None:
    assert error_text(error) == words

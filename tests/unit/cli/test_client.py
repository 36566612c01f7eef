"""The HTTP client of the command line: URLs that it rejects, and problems as sentences."""

from __future__ import annotations

import httpx2
import pytest

from hookfast.cli.remote.client import (
    Api,
    NotHookfast,
    Unreachable,
    error_text,
    field_errors,
    path_of,
    problem_sentences,
)
from tests.e2e.service_process import free_ports

_KEY = "hf_" + "k" * 40


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:8080",
        "ftp://127.0.0.1",
        "http://",
        "http://[",
        "http://h:port",
        "http://h/?a=b",
        "http://hooks..example",
        f"http://{'h' * 64}.example",
        "x",
    ],
)
def test_invalid_url_is_named_in_the_error(url: str) -> None:
    with pytest.raises(NotHookfast) as failed:
        Api(url, key=_KEY, key_origin="here")
    assert url in failed.value.message


def test_url_with_a_password_is_rejected_without_repeating_it() -> None:
    with pytest.raises(NotHookfast) as failed:
        Api("https://me:hunter2@example.com", key=_KEY, key_origin="here")
    assert "hunter2" not in failed.value.message


@pytest.mark.parametrize("ending", ["", "/", "/v1", "/v1/"])
def test_a_url_may_end_in_the_version_of_the_api(ending: str) -> None:
    [port] = free_ports(1)
    with pytest.raises(Unreachable, match=rf"no Hookfast at http://127.0.0.1:{port} "):
        Api(f"http://127.0.0.1:{port}{ending}", key=_KEY, key_origin="here").get("/tenants")


def test_path_parts_are_quoted_so_that_an_id_cannot_change_the_path() -> None:
    assert path_of("deliveries", "a/../b?c#d e") == "/deliveries/a%2F..%2Fb%3Fc%23d%20e"
    assert path_of("deliveries", "") == "/deliveries/-"


def test_problem_is_shown_with_its_detail_and_each_error() -> None:
    problem = {
        "detail": "The request does not have the expected form.",
        "errors": [{"pointer": "/url", "detail": "must be https"}, {"pointer": "", "detail": "no"}],
    }
    assert problem_sentences(str(problem["detail"]), field_errors(problem)) == (
        "The request does not have the expected form.\n"
        "  /url: must be https\n"
        "  (the whole body): no"
    )


def test_problem_without_further_errors_is_one_line() -> None:
    assert problem_sentences("There is no such thing.", field_errors({})) == (
        "There is no such thing."
    )
    same = {"errors": [{"pointer": "", "detail": "It is empty."}]}
    assert problem_sentences("It is empty.", field_errors(same)) == "It is empty."
    at = {"errors": [{"pointer": "/url", "detail": "must be https"}]}
    assert problem_sentences("must be https", field_errors(at)) == "/url: must be https"


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
def test_error_text_is_never_empty_and_has_no_full_stop(error: Exception, words: str) -> None:
    assert error_text(error) == words

"""The command line's connection: URLs that it rejects, and problems as sentences."""

from __future__ import annotations

from typing import Any

import pytest

from hookfast.cli.remote.api import Api, NotHookfast, Unreachable, path_of, problem_sentences
from hookfast_client import ApiError
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


def _sentences(problem: dict[str, Any]) -> str:
    return problem_sentences(ApiError.from_problem(problem, status=422))


def test_problem_is_shown_with_its_detail_and_each_error() -> None:
    problem = {
        "detail": "The request does not have the expected form.",
        "errors": [{"pointer": "/url", "detail": "must be https"}, {"pointer": "", "detail": "no"}],
    }
    assert _sentences(problem) == (
        "The request does not have the expected form.\n"
        "  /url: must be https\n"
        "  (the whole body): no"
    )


def test_problem_without_further_errors_is_one_line() -> None:
    assert _sentences({"detail": "There is no such thing."}) == "There is no such thing."
    same = {"detail": "It is empty.", "errors": [{"pointer": "", "detail": "It is empty."}]}
    assert _sentences(same) == "It is empty."
    at = {"detail": "must be https", "errors": [{"pointer": "/url", "detail": "must be https"}]}
    assert _sentences(at) == "/url: must be https"

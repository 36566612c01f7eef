from __future__ import annotations

import pytest

from api.custom_headers import MAX_HEADERS, check_headers, masked
from hookfast.errors import InvalidInput


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Basic dXNlcjpwYXNz"},
        {"X-Env": "a b  c", "x-other": "!"},
        {"!#$%&'*+-.^_`|~09aZ": "~"},
        {"X-Hooked": "not ours"},
        {"X-Long": "x" * 1_000},
        {f"X-{number}": "1" for number in range(MAX_HEADERS)},
    ],
)
def test_it_takes_headers_that_can_be_sent(headers: dict[str, str]) -> None:
    check_headers(headers)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "X A",
        "X:A",
        "X\r\nY",
        "X\x00",
        "É",
        "x" * 101,
        "host",
        "Content-Length",
        "CONTENT-TYPE",
        "Transfer-Encoding",
        "Connection",
        "User-Agent",
        "traceparent",
        "Webhook-Id",
        "X-Hook-Signature",
        "x-webhook-nonce",
        "Proxy-Authorization",
    ],
)
def test_it_refuses_names_that_are_no_tokens_or_ours(name: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_headers({name: "1"})
    assert caught.value.code == "invalid_header"


@pytest.mark.parametrize(
    "value",
    ["", " ", " a", "a ", "a\tb", "a\r\nX-B: b", "a\x00", "é", "\x7f", "x" * 1_001, "***"],
)
def test_it_refuses_values_that_are_not_visible_ascii(value: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_headers({"X-A": value})
    assert [error.pointer for error in caught.value.errors] == ["/headers/X-A"]


def test_it_refuses_one_header_in_two_cases() -> None:
    with pytest.raises(InvalidInput):
        check_headers({"X-A": "1", "x-a": "2"})


def test_it_refuses_too_many() -> None:
    with pytest.raises(InvalidInput):
        check_headers({f"X-{number}": "1" for number in range(MAX_HEADERS + 1)})


def test_answers_show_names_only() -> None:
    assert masked({"X-A": "secret"}) == {"X-A": "***"}

from __future__ import annotations

import email
import email.policy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.forms.custom_headers import MAX_HEADERS, check_headers, masked
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
def test_valid_headers_are_accepted(headers: dict[str, str]) -> None:
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
        "X-Hook-Hops",
        "x-webhook-nonce",
        "Proxy-Authorization",
        "Proxy-Connection",
        "Forwarded",
        "X-Forwarded-For",
        "X-Forwarded-Host",
        "X-Real-IP",
        "Expect",
        "Keep-Alive",
        "TE",
        "Trailer",
        "Upgrade",
        "Via",
        "Date",
        "Accept-Encoding",
        "Metadata",
        "Metadata-Flavor",
        "X-aws-ec2-metadata-token",
        "X-aws-ec2-metadata-token-ttl-seconds",
        "X-Google-Metadata-Request",
        "tracestate",
        "X-A: b\r\nHost",
        "X-A\u00a0",
        "\uff28ost",
        "Host ",
        "Host\t",
    ],
)
def test_invalid_or_reserved_header_name_is_rejected(name: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_headers({name: "1"})
    assert caught.value.code == "invalid_header"


@pytest.mark.parametrize(
    "value",
    [
        "",
        " ",
        "a\rb",
        "a\nb",
        "a\x0bb",
        "\u2028",
        "a\u00a0b",
        "\u010a",
        " a",
        "a ",
        "a\tb",
        "a\r\nX-B: b",
        "a\x00",
        "é",
        "\x7f",
        "x" * 1_001,
        "***",
    ],
)
def test_header_value_must_be_visible_ascii(value: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_headers({"X-A": value})
    assert [error.pointer for error in caught.value.errors] == ["/headers/X-A"]


def test_header_that_cannot_be_custom_says_what_to_do() -> None:
    with pytest.raises(InvalidInput, match="reserved"):
        check_headers({"X-Webhook-Source": "1"})
    with pytest.raises(InvalidInput, match="authentication"):
        check_headers({"Authorization": "Bearer " + "x" * 1_000})


def test_header_repeated_in_another_case_is_rejected() -> None:
    with pytest.raises(InvalidInput):
        check_headers({"X-A": "1", "x-a": "2"})


def test_too_many_headers_are_rejected() -> None:
    with pytest.raises(InvalidInput):
        check_headers({f"X-{number}": "1" for number in range(MAX_HEADERS + 1)})


def test_responses_show_only_header_names() -> None:
    assert masked({"X-A": "secret"}) == {"X-A": "***"}


@given(st.dictionaries(st.text(max_size=12), st.text(max_size=12), max_size=4))
def test_accepted_headers_cannot_inject_or_override_others(
    headers: dict[str, str],
) -> None:
    try:
        check_headers(headers)
    except InvalidInput:
        return
    wire = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    parsed = email.message_from_string(f"{wire}\r\n", policy=email.policy.HTTP)
    assert [(name, str(value)) for name, value in parsed.items()] == list(headers.items())
    assert wire.isascii()
    assert not {"host", "content-length", "connection"} & {name.lower() for name in headers}

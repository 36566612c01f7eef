"""Which URLs an endpoint may have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookfast.errors import InvalidInput
from hookfast.sender import check_url
from hookfast.sender.url import parse_url


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com",
        "https://example.com/",
        "https://example.com:8443/hooks?x=1&y=a@b",
        "https://example.com?x=1",
        "https://a_b.example.com/%20",
        "https://xn--bcher-kva.example/",
        "https://192.0.2.1/",
        "https://[2001:db8::1]:8443/",
        "https://1.2.3.4.example/",
        "https://" + "a" * 63 + ".example/",
    ],
)
def test_it_returns_a_good_url_unchanged(url: str) -> None:
    assert check_url(url, allow_http=False) == url


@pytest.mark.parametrize(
    ("url", "normalised"),
    [
        ("HTTPS://EXAMPLE.com/Path", "https://example.com/Path"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        ("https://[2001:DB8:0:0::1]/", "https://[2001:db8::1]/"),
    ],
)
def test_it_normalises_scheme_and_host(url: str, normalised: str) -> None:
    assert check_url(url, allow_http=False) == normalised


def test_it_accepts_http_only_where_that_is_allowed() -> None:
    assert check_url("http://example.com/", allow_http=True) == "http://example.com/"
    with pytest.raises(InvalidInput, match="begin the URL with https://"):
        check_url("http://example.com/", allow_http=False)


@pytest.mark.parametrize(
    ("url", "advice"),
    [
        ("", "begin the URL"),
        ("example.com", "begin the URL"),
        ("//example.com", "begin the URL"),
        ("ftp://example.com/", "begin the URL"),
        ("file:///etc/passwd", "begin the URL"),
        ("https:example.com", "'//'"),
        ("https:/example.com", "'//'"),
        ("https:///path", "name a host"),
        ("https://:443/", "name a host"),
        ("https://user@example.com/", "user name"),
        ("https://user:secret@example.com/", "user name"),
        ("https://example.com@127.0.0.1/", "user name"),
        ("https://example.com/#top", "fragment"),
        ("https://example.com#@127.0.0.1/", "fragment"),
        ("https://example.com\\@127.0.0.1/", "backslash"),
        ("https://example.com/a\\b", "backslash"),
        (" https://example.com/", "control characters"),
        ("https://example.com/a b", "control characters"),
        ("https://example.com/\r\nX: y", "control characters"),
        ("https://exam\tple.com/", "control characters"),
        ("https://example.com/\x7f", "control characters"),
        ("https://example.com/\x00", "control characters"),
        ("https://example.com/ü", "percent-encode"),
        ("https://example.com:/", "port"),
        ("https://example.com:0/", "port"),
        ("https://example.com:65536/", "port"),
        ("https://example.com:080/", "port"),
        ("https://example.com:٤٤٣/", "port"),
        ("https://example.com:-1/", "port"),
        ("https://example.com:443x/", "port"),
        ("https://127.1/", "four decimal numbers"),
        ("https://2130706433/", "four decimal numbers"),
        ("https://0x7f000001/", "four decimal numbers"),
        ("https://0x7f.1/", "four decimal numbers"),
        ("https://0X7F.0.0.1/", "four decimal numbers"),
        ("https://0177.0.0.1/", "four decimal numbers"),
        ("https://127.0.0.256/", "four decimal numbers"),
        ("https://1.2.3.4.5/", "four decimal numbers"),
        ("https://example.1/", "four decimal numbers"),
        ("https://example.com./", "no dot at the end"),
        ("https://127.0.0.1./", "no dot at the end"),
        ("https://exam..ple.com/", "labels"),
        ("https://-example.com/", "labels"),
        ("https://example-.com/", "labels"),
        ("https://exa%6dple.com/", "labels"),
        ("https://exa!mple.com/", "labels"),
        ("https://" + "a" * 64 + ".com/", "labels"),
        ("https://" + "a." * 127 + "com/", "253"),
        ("https://xn--a/", "IDNA"),
        ("https://Bücher.example/", "IDNA"),
        ("https://ｅｘａｍｐｌｅ.com/", "IDNA"),
        ("https://１２７.0.0.1/", "IDNA"),
        ("https://example。com/", "IDNA"),
        ("https://①.example/", "IDNA"),
        ("https://[::1/", "brackets"),
        ("https://::1/", "brackets"),
        ("https://[fe80::1%25eth0]/", "zone"),
        ("https://[fe80::1%eth0]/", "zone"),
        ("https://[127.0.0.1]/", "valid IPv6"),
        ("https://[v1.x]/", "valid IPv6"),
        ("https://[]/", "valid IPv6"),
        ("https://[::1]x/", "brackets"),
        ("https://example.com/" + "a" * 2048, "2048"),
        ("https://bücher.example/" + "a" * 2020, "2048"),
    ],
)
def test_it_refuses_a_bad_url_and_says_what_to_do(url: str, advice: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_url(url, allow_http=False, pointer="/endpoint/url")
    assert refused.value.code == "invalid_url"
    assert refused.value.errors[0].pointer == "/endpoint/url"
    assert advice in refused.value.message


@given(st.text() | st.text().map(lambda text: f"https://{text}"))
def test_it_either_accepts_or_refuses_and_accepting_is_stable(text: str) -> None:
    try:
        url = check_url(text, allow_http=True)
    except InvalidInput:
        return
    assert check_url(url, allow_http=True) == url
    parts = parse_url(url)
    assert url.isascii()
    assert 1 <= parts.port <= 65535
    assert parts.target.startswith("/")


@pytest.mark.parametrize(
    ("url", "host", "port", "authority", "target"),
    [
        ("https://example.com", "example.com", 443, "example.com", "/"),
        ("https://example.com:443/a", "example.com", 443, "example.com", "/a"),
        ("https://example.com?x=1", "example.com", 443, "example.com", "/?x=1"),
        ("http://example.com:443/", "example.com", 443, "example.com:443", "/"),
        ("https://[::1]:8443/a?b", "::1", 8443, "[::1]:8443", "/a?b"),
    ],
)
def test_it_parses_a_url_into_what_goes_on_the_wire(
    url: str, host: str, port: int, authority: str, target: str
) -> None:
    parts = parse_url(url)
    assert (parts.host, parts.port, parts.authority, parts.target) == (
        host,
        port,
        authority,
        target,
    )

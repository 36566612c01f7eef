"""Endpoint URLs: which ones are accepted, how they are normalised and parsed."""

from __future__ import annotations

from urllib.parse import urlsplit

import httpx2
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
def test_normal_url_is_returned_unchanged(url: str) -> None:
    assert check_url(url, allow_http=False) == url


@pytest.mark.parametrize(
    ("url", "normalised"),
    [
        ("HTTPS://EXAMPLE.com/Path", "https://example.com/Path"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        # IDNA 2003 mapped these two to one host; here the checked host is the one connected to
        ("https://stra\u00dfe.example/", "https://xn--strae-oqa.example/"),
        ("https://[::ffff:127.0.0.1]/", "https://[::ffff:7f00:1]/"),
        ("https://[::FFFF:7f00:0001]/", "https://[::ffff:7f00:1]/"),
        ("https://[2001:DB8:0:0::1]/", "https://[2001:db8::1]/"),
    ],
)
def test_scheme_and_host_are_normalised(url: str, normalised: str) -> None:
    assert check_url(url, allow_http=False) == normalised


def test_http_url_is_accepted_only_if_allowed() -> None:
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
        ("ht\ntps://example.com/", "control characters"),
        ("https:\t//example.com/", "control characters"),
        ("https://example.com\n/", "control characters"),
        ("https://example.com\r\n.evil.example/", "control characters"),
        ("https://example.com/\u2028", "percent-encode"),
        ("https://example.com:80@127.0.0.1/", "user name"),
        ("https://@127.0.0.1/", "user name"),
        ("https://:@127.0.0.1/", "user name"),
        ("https://example.com%40127.0.0.1/", "four decimal numbers"),
        ("https://example.com;@127.0.0.1/", "user name"),
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
        ("https://example.com:+80/", "port"),
        ("https://example.com: 80/", "control characters"),
        ("https://example.com:80:80/", "brackets"),
        ("https://example.com:4_43/", "port"),
        ("https://example.com:0x50/", "port"),
        ("https://example.com:99999999999999999999/", "port"),
        ("https://127.1/", "four decimal numbers"),
        ("https://2130706433/", "four decimal numbers"),
        ("https://0x7f000001/", "four decimal numbers"),
        ("https://0x7f.1/", "four decimal numbers"),
        ("https://0X7F.0.0.1/", "four decimal numbers"),
        ("https://0177.0.0.1/", "four decimal numbers"),
        ("https://017700000001/", "four decimal numbers"),
        ("https://0/", "four decimal numbers"),
        ("https://0x/", "four decimal numbers"),
        ("https://127.0.1/", "four decimal numbers"),
        ("https://127.0.0.0x1/", "four decimal numbers"),
        ("https://127.00.0.1/", "four decimal numbers"),
        ("https://0000127.0.0.1/", "four decimal numbers"),
        ("https://127.0.0.1.5/", "four decimal numbers"),
        ("https://evil.example.2130706433/", "four decimal numbers"),
        ("https://127%2e0%2e0%2e1/", "labels"),
        ("https://%31%32%37.0.0.1/", "four decimal numbers"),
        ("https://127.0.0.1%2f.example.com/", "labels"),
        ("https://127.0.0.1%00.example.com/", "labels"),
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
        ("https://💩.example/", "no emoji"),
        ("https://exam\u00adple.com/", "IDNA"),  # a soft hyphen
        ("https://exam\u200bple.com/", "IDNA"),  # a zero-width space
        ("https://example\uff0ecom/", "IDNA"),  # full-width and half-width dots
        ("https://example\uff61com/", "IDNA"),
        ("https://example\u2024com/", "IDNA"),
        ("https://example.com\uff0f@127.0.0.1/", "user name"),
        ("https://example.com\u2044.evil.example/", "IDNA"),  # a fraction slash
        ("https://xn--exmple-4nf.com\uff0e127.0.0.1/", "IDNA"),
        ("https://1\u0662\u0667.0.0.1/", "IDNA"),  # Arabic digits
        ("https://\u24c1ocalhost/", "IDNA"),  # a letter in a circle
        ("https://xn--example-.com/", "labels"),
        ("https://xn--\u00fc.example/", "IDNA"),
        ("https://[::1/", "brackets"),
        ("https://::1/", "brackets"),
        ("https://[fe80::1%25eth0]/", "zone"),
        ("https://[fe80::1%eth0]/", "zone"),
        ("https://[127.0.0.1]/", "valid IPv6"),
        ("https://[v1.x]/", "valid IPv6"),
        ("https://[]/", "valid IPv6"),
        ("https://[::ffff:127.1]/", "valid IPv6"),
        ("https://[::ffff:0x7f.0.0.1]/", "valid IPv6"),
        ("https://[::1].example.com/", "brackets"),
        ("https://[[::1]]/", "brackets"),
        ("https://x[::1]/", "brackets"),
        ("https://[::1%2525eth0]/", "zone"),
        ("https://[::1%00]/", "zone"),
        ("https://[::1]x/", "brackets"),
        ("https://example.com/" + "a" * 2048, "2048"),
        ("https://bücher.example/" + "a" * 2020, "2048"),
    ],
)
def test_invalid_url_is_rejected_with_advice(url: str, advice: str) -> None:
    with pytest.raises(InvalidInput) as rejected:
        check_url(url, allow_http=False, pointer="/endpoint/url")
    assert rejected.value.code == "invalid_url"
    assert rejected.value.errors[0].pointer == "/endpoint/url"
    assert advice in rejected.value.message


PIECES = st.lists(
    st.sampled_from(
        [
            *("https:", "http:", "//", "/", "\\", "@", ":", "#", "?", "[", "]", "%", ".", "%2e"),
            *("127", "0x7f", "1", "0177", "::1", "::ffff:", "localhost", "example", "xn--", "80"),
            *("\u3002", "\uff0e", "\u00ad", "\u00df", "\uff11", "\t", "\r\n", " ", "-", "\x00"),
        ]
    ),
    max_size=12,
).map("".join)


@given(PIECES | PIECES.map(lambda text: f"https://{text}"))
def test_other_parsers_read_the_same_host_from_an_accepted_url(text: str) -> None:
    try:
        url = check_url(text, allow_http=True)
    except InvalidInput:
        return
    parts = parse_url(url)
    ports = {"http": 80, "https": 443}
    split = urlsplit(url)
    assert (split.hostname, split.port or ports[split.scheme]) == (parts.host, parts.port)
    assert split.username is None
    other = httpx2.URL(url)
    assert (other.raw_host.decode(), other.port or ports[other.scheme]) == (parts.host, parts.port)
    assert other.userinfo == b""


@given(st.text() | st.text().map(lambda text: f"https://{text}"))
def test_any_text_is_rejected_or_normalised_and_stays_normalised(text: str) -> None:
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
def test_parsed_url_has_the_parts_that_are_sent(
    url: str, host: str, port: int, authority: str, target: str
) -> None:
    parts = parse_url(url)
    assert (parts.host, parts.port, parts.authority, parts.target) == (
        host,
        port,
        authority,
        target,
    )

"""The evidence of an attempt: what it shows, what it masks, and how long it gets."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from hypothesis import given
from hypothesis import strategies as st

from hookfast.audit import MASK
from hookfast.deliveries.evidence import (
    MAX_FIELDS,
    MAX_NAME,
    MAX_VALUE,
    RawHeaders,
    evidence_of,
    header_pairs,
)
from hookfast.deliveries.headers import request_headers
from hookfast.signing.keys import RsaSigner
from hookfast.signing.signature import HashName, Profile

URL = "https://example.com/hook?key=1"
SECRET = "4f3c2b1a"


def shown_of_request(*headers: tuple[str, str], **options: object) -> list[tuple[str, str]]:
    evidence = evidence_of(URL, sent=headers, received=None, **{"limit": 4096, **options})  # type: ignore[arg-type]
    shown = header_pairs(evidence.request_headers)
    assert shown is not None
    return shown


def shown_of_answer(raw: RawHeaders, *, limit: int = 4096) -> list[tuple[str, str]]:
    evidence = evidence_of(URL, sent=[], received=raw, limit=limit)
    shown = header_pairs(evidence.response_headers)
    assert shown is not None
    return shown


@pytest.mark.parametrize("last", [Profile.NONCE, Profile.BODY, Profile.RSA])
def test_of_what_hookfast_sends_only_signatures_are_masked(last: Profile) -> None:
    sent = request_headers(
        b"{}",
        message_id="dlv_1",
        event_type="order.paid",
        attempt=1,
        timestamp=1_795_413_940,
        profiles=[Profile.HOOK, Profile.STANDARD, Profile.STANDARD_ED25519, last],
        keys=[b"k" * 32],
        hash_name=HashName.SHA256,
        custom={},
        traceparent="00-1-2-01",
        ed25519=[Ed25519PrivateKey.generate()],
        rsa=RsaSigner(kid="kid_1", key=generate_private_key(65537, 2048)),
    )
    signatures = {"X-Hook-Signature", "webhook-signature", "X-Webhook-Signature"}
    assert signatures <= sent.keys()
    expected = [(name, MASK if name in signatures else value) for name, value in sent.items()]
    assert shown_of_request(*sent.items()) == expected


@pytest.mark.parametrize("name", ["Authorization", "Cookie", "X-Api-Key", "X-Env", "X-Signature"])
def test_all_other_values_that_are_sent_are_masked(name: str) -> None:
    assert shown_of_request((name, SECRET)) == [(name, MASK)]


def test_a_header_that_is_sent_on_is_shown() -> None:
    sent = (("X-GitHub-Event", "push"), ("X-Env", SECRET))
    shown = shown_of_request(*sent, public={"x-github-event"})
    assert shown == [("X-GitHub-Event", "push"), ("X-Env", MASK)]


def test_cookies_of_an_answer_are_masked_and_all_else_is_shown_in_order() -> None:
    raw = [
        ("Set-Cookie", f"session={SECRET}"),
        ("X-Cache", "HIT"),
        ("set-cookie", f"other={SECRET}"),
        ("WWW-Authenticate", 'Bearer realm="a"'),
        ("X-Cache", "MISS: b"),
        ("X-Empty", ""),
    ]
    assert shown_of_answer(raw) == [
        ("Set-Cookie", MASK),
        ("X-Cache", "HIT"),
        ("set-cookie", MASK),
        ("WWW-Authenticate", 'Bearer realm="a"'),
        ("X-Cache", "MISS: b"),
        ("X-Empty", ""),
    ]


def test_nothing_is_known_of_a_request_that_was_not_sent() -> None:
    evidence = evidence_of(URL, sent=None, received=None, limit=4096)
    assert (evidence.url, evidence.request_headers, evidence.response_headers) == (URL, None, None)
    assert header_pairs(None) is None
    assert header_pairs("") == []


def test_with_a_limit_of_zero_no_headers_are_kept() -> None:
    evidence = evidence_of(URL, sent=[("Host", "a")], received=[("Date", "b")], limit=0)
    assert (evidence.url, evidence.request_headers, evidence.response_headers) == (URL, None, None)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (b"x" * MAX_VALUE, "x" * MAX_VALUE),
        (b"x" * (MAX_VALUE + 1), "x" * MAX_VALUE + "…"),
        (b"x" * (MAX_VALUE - 1) + "ü".encode(), "x" * (MAX_VALUE - 1) + "\ufffd…"),
        (b"a\xffb", "a\ufffdb"),
        (b"a\x00b", "a\ufffdb"),
        ("a\u2028b\x85c".encode(), "a\u2028b\x85c"),  # line ends of Unicode, not of HTTP
    ],
)
def test_a_value_is_text_of_limited_length(value: bytes, shown: str) -> None:
    raw = [("X-A", value.decode("latin-1")), ("X-B", "1")]
    assert shown_of_answer(raw) == [("X-A", shown), ("X-B", "1")]


def test_a_long_name_is_cut() -> None:
    [(name, value)] = shown_of_answer([("n" * (MAX_NAME + 1), "1")])
    assert (name, value) == ("n" * MAX_NAME + "…", "1")


def test_too_many_headers_are_counted() -> None:
    raw = [(f"X-{number}", "1") for number in range(MAX_FIELDS + 3)]
    *shown, last = shown_of_answer(raw)
    assert shown == raw[:MAX_FIELDS]
    assert last == ("…", "3 more")


def test_headers_beyond_the_limit_are_counted_and_none_after_them_is_kept() -> None:
    raw = [("X-A", "x" * 50), ("X-B", "x" * 50), ("X-C", "1")]
    assert shown_of_answer(raw, limit=100) == [("X-A", "x" * 50), ("…", "2 more")]


_NAMES = st.from_regex(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,120}", fullmatch=True)
_VALUES = st.binary(max_size=1500).map(lambda data: data.translate(None, b"\r\n").decode("latin-1"))


@given(
    raw=st.lists(st.tuples(_NAMES, _VALUES), max_size=80),
    limit=st.integers(min_value=1, max_value=65_536),
)
def test_every_answer_has_evidence_of_limited_length(
    raw: list[tuple[str, str]], limit: int
) -> None:
    shown = shown_of_answer(raw, limit=limit)
    kept = [pair for pair in shown if pair[0] != "…"]
    left_out = [int(count.removesuffix(" more")) for name, count in shown if name == "…"]
    assert len(kept) + sum(left_out) == len(raw)
    assert len(kept) <= MAX_FIELDS
    assert sum(len(f"{name}{value}") for name, value in kept) <= limit

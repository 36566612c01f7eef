"""Idempotency keys of deliveries and of business facts."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookfast.errors import InvalidInput
from hookfast.inbox import BusinessKeys, RequestHeaders, compile_expression, delivery_key, provider
from hookfast.inbox.expression import MAX_KEY_LENGTH
from tests.unit.inbox.requests import received

GITHUB = provider("github")
PUSH = {"repository": {"full_name": "acme/storefront"}, "ref": "refs/heads/main", "after": "61"}


def test_the_key_is_the_delivery_id_the_expression_or_the_body_digest() -> None:
    after = compile_expression("after", pointer="/key")
    named = received({"X-GitHub-Delivery": "guid"})
    assert delivery_key(GITHUB, named, payload=PUSH, expression=after) == "id:guid"
    unnamed = received({}, b"{}")
    assert delivery_key(GITHUB, unnamed, payload=PUSH, expression=after) == "key:61"
    assert delivery_key(GITHUB, unnamed, payload={}, expression=after) == unnamed.content_key
    assert delivery_key(GITHUB, unnamed, payload={}) == unnamed.content_key


def test_a_delivery_id_cannot_equal_the_key_of_another_body() -> None:
    victim = received({}, b"the body of another request")
    forger = received({"X-GitHub-Delivery": victim.content_key})
    assert delivery_key(GITHUB, forger, payload={}) != delivery_key(GITHUB, victim, payload={})


def test_a_key_has_a_bounded_length() -> None:
    long = "x" * 10_000
    whole = compile_expression("@", pointer="/key")
    found = delivery_key(GITHUB, received({}), payload=long, expression=whole)
    assert len(found) <= len("key:") + MAX_KEY_LENGTH
    named = received({"X-GitHub-Delivery": long})
    assert len(delivery_key(GITHUB, named, payload=long)) == len("sha256:") + 64


def test_the_same_push_under_two_delivery_ids_has_one_business_key() -> None:
    keys = BusinessKeys.parse("suggested", provider=GITHUB, pointer="/key")
    found = keys.key("github.push.received", PUSH)  # type: ignore[arg-type]
    assert found == 'github.push.received:["acme/storefront","refs/heads/main","61"]'
    other = PUSH | {"after": "62"}
    assert keys.key("github.push.received", other) != found  # type: ignore[arg-type]


def test_an_event_without_a_rule_or_a_complete_key_has_no_business_key() -> None:
    keys = BusinessKeys.parse("suggested", provider=GITHUB, pointer="/key")
    assert keys.key("github.star.created", PUSH) is None  # type: ignore[arg-type]
    assert keys.key("github.push.received", {"ref": "refs/heads/main"}) is None


def test_business_keys_of_one_expression_differ_by_event_type() -> None:
    keys = BusinessKeys.parse("after", provider=GITHUB, pointer="/key")
    assert keys.key("github.push.received", {"after": "61"}) == "github.push.received:61"
    assert keys.key("github.create.received", {"after": "61"}) == "github.create.received:61"


def test_the_first_matching_pattern_applies() -> None:
    rules = {"github.push.*": "after", "github.**": "ref"}
    keys = BusinessKeys.parse(rules, provider=GITHUB, pointer="/key")
    payload = {"after": "61", "ref": "main"}
    assert keys.key("github.push.received", payload) == "github.push.received:61"
    assert keys.key("github.delete.received", payload) == "github.delete.received:main"
    assert keys.key("gitlab.push.received", payload) is None


@pytest.mark.parametrize(
    ("given", "pointer"),
    [
        ("]", "/key"),
        ("", "/key"),
        ({}, "/key"),
        ({f"a.b.c{n}": "id" for n in range(33)}, "/key"),
        ({"github.push.*": "]"}, "/key/github.push.*"),
        ({"git/hub~": "id"}, "/key/git~1hub~0"),
    ],
)
def test_invalid_business_keys_are_rejected_at_their_place(
    given: str | Mapping[str, str], pointer: str
) -> None:
    with pytest.raises(InvalidInput) as rejected:
        BusinessKeys.parse(given, provider=GITHUB, pointer=pointer[:4])
    assert rejected.value.errors[0].pointer == pointer


def test_suggested_keys_of_a_provider_without_any_are_rejected() -> None:
    with pytest.raises(InvalidInput, match="hook has no suggested keys"):
        BusinessKeys.parse("suggested", provider=provider("hook"), pointer="/key")


@given(
    value=st.binary(max_size=20).map(lambda raw: raw.strip(b" \t")),
    before=st.text(" \t", max_size=3),
    after=st.text(" \t", max_size=3),
)
def test_optional_white_space_around_a_header_is_no_part_of_it(
    value: bytes, before: str, after: str
) -> None:
    raw = before.encode() + value + after.encode()
    headers = RequestHeaders.from_raw([(b"X-A", raw)])
    assert headers.all("x-a") == (value.decode("latin-1"),)
    assert headers.only("X-A") == (value.decode("latin-1") or None)


def test_raw_headers_are_decoded_without_loss() -> None:
    raw = [(b"X-A", b"\xff\x00"), (b"x-a", b"2"), (b"Content-Type", b"text/plain")]
    headers = RequestHeaders.from_raw(raw)
    assert headers.all("X-a") == ("\xff\x00", "2")
    with pytest.raises(InvalidInput, match="appears 2 times"):
        headers.only("x-A")
    assert [
        (name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()
    ] == raw

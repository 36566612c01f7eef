"""Event types of inbound requests are valid, whatever a provider calls its events."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookfast.events.event_type import MAX_LENGTH, parse_event_type
from hookfast.events.operational import is_reserved
from hookfast.inbox.naming import MAX_NAMESPACE, event_name, event_type_from, valid_event_type


@pytest.mark.parametrize(
    ("noun", "verb", "name"),
    [
        ("pull_request", "opened", "x.pull_request.opened"),
        ("Merge Request", "Re-Opened!", "x.merge_request.re_opened"),
        ("push", None, "x.push.received"),
        ("", "", "x.event.received"),
        ("___", "--", "x.event.received"),
        (None, 7, "x.event.received"),
        ("2fa", "3ds", "x.x_2fa.x_3ds"),
        ("ünïcode", "ÀÉ", "x.n_code.received"),
        ("a.b", "c.d", "x.a_b.c_d"),
        ("a" * 500, "b" * 500, "x." + "a" * 48 + "." + "b" * 48),
    ],
)
def test_noun_and_verb_are_converted_to_valid_words(noun: object, verb: object, name: str) -> None:
    assert event_name("x", noun, verb) == name


@pytest.mark.parametrize(
    ("given_name", "name"),
    [
        ("a.b", "x.a.b"),
        ("a.b.c", "x.a_b.c"),
        ("a/b", "x.a.b"),
        ("a:b:c", "x.a_b.c"),
        ("..a..b..", "x.a.b"),
        ("a", "x.a.received"),
        ("", "x.event.received"),
        ("...", "x.event.received"),
        (None, "x.event.received"),
        ({}, "x.event.received"),
    ],
)
def test_names_of_any_number_of_words_become_noun_and_verb(given_name: object, name: str) -> None:
    assert event_type_from("x", given_name) == name


anything = st.none() | st.integers() | st.text() | st.text("./:_-aZ9 ", max_size=300)


@given(noun=anything, verb=anything)
def test_any_noun_and_verb_make_a_valid_event_type(noun: object, verb: object) -> None:
    longest = "n" * MAX_NAMESPACE
    for name in (event_name(longest, noun, verb), event_type_from(longest, noun)):
        assert parse_event_type(name) == name
        assert len(name) <= MAX_LENGTH


@given(name=anything | st.from_regex(r"(hookfast|a)\.[a-z]{1,3}\.[a-z]{1,3}", fullmatch=True))
def test_a_converted_name_is_valid_and_never_operational(name: object) -> None:
    found = valid_event_type("hook", name)
    assert parse_event_type(found) == found
    assert not is_reserved(found)

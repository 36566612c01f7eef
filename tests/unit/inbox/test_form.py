"""Forms are parsed as by the standard library, in little memory."""

from __future__ import annotations

import re
import tracemalloc
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookfast.errors import InvalidInput
from hookfast.inbox import form
from hookfast.inbox.form import MAX_FIELDS, form_pairs

PIECES = ["%", "%2", "%20", "%C3%A9", "%F0%9F%A6%8A", "%E2%82", "%00", "%%41", "+", "=", "&", "a"]


def parsed_by_library(body: bytes) -> list[tuple[str, str]] | None:
    try:
        pairs = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(body),
            errors="strict",
            max_num_fields=MAX_FIELDS,
        )
    except ValueError:
        return None
    return None if any("\0" in text for pair in pairs for text in pair) else pairs


def parsed(body: bytes) -> list[tuple[str, str]] | None:
    try:
        return form_pairs(body)
    except InvalidInput:
        return None


@given(st.lists(st.sampled_from(PIECES), max_size=30), st.integers(1, 9))
def test_a_form_is_parsed_as_by_the_standard_library(pieces: list[str], at_once: int) -> None:
    body = "".join(pieces).encode()
    with pytest.MonkeyPatch.context() as patch:
        pattern = form._PIECE.pattern.replace("4096", str(at_once))
        patch.setattr(form, "_PIECE", re.compile(pattern, re.DOTALL))
        assert parsed(body) == parsed_by_library(body)


@pytest.mark.parametrize("count", [MAX_FIELDS - 1, MAX_FIELDS, MAX_FIELDS + 1])
def test_a_form_has_at_most_the_maximum_number_of_fields(count: int) -> None:
    body = b"&".join([b"a=1"] * count)
    assert parsed(body) == parsed_by_library(body)


@pytest.mark.parametrize("escape", [b"%20", b"%C3%A9", b"%", b"+"])
def test_a_form_of_escapes_takes_little_more_memory_than_itself(escape: bytes) -> None:
    body = b"a=" + escape * (300_000 // len(escape))
    tracemalloc.start()
    try:
        form_pairs(body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10 * len(body)

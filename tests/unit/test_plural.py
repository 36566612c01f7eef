"""Numbers agree with their nouns and verbs."""

from __future__ import annotations

import pytest

from hookfast.plural import are, pluralize


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (1, "delivery", "1 delivery is"),
        (1234, "delivery", "1,234 deliveries are"),
        (0, "event", "0 events are"),
        (2, "process", "2 processes are"),
    ],
)
def test_numbers_agree_with_their_nouns_and_verbs(number: int, noun: str, text: str) -> None:
    assert f"{pluralize(number, noun)} {are(number)}" == text

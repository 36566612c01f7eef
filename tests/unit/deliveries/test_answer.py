"""Filters by answers, and their names."""

from __future__ import annotations

import pytest

from hookfast.deliveries.answer import (
    SUGGESTED_ANSWERS,
    AnswerFilter,
    answer_name,
    parse_answer,
)
from hookfast.deliveries.outcome import Result


@pytest.mark.parametrize(
    ("text", "expected", "fails"),
    [
        ("503", AnswerFilter(lowest=503, highest=503), True),
        ("204", AnswerFilter(lowest=204, highest=204), False),
        ("299", AnswerFilter(lowest=299, highest=299), False),
        ("300", AnswerFilter(lowest=300, highest=300), True),
        ("2xx", AnswerFilter(lowest=200, highest=299), False),
        ("1xx", AnswerFilter(lowest=100, highest=199), True),
        (" 5XX ", AnswerFilter(lowest=500, highest=599), True),
        ("success", AnswerFilter(Result.SUCCESS), False),
        ("status", AnswerFilter(Result.STATUS), True),
        ("Timeout", AnswerFilter(Result.TIMEOUT), True),
    ],
)
def test_filter_is_parsed(text: str, expected: AnswerFilter, fails: bool) -> None:
    assert parse_answer(text, pointer="answer") == expected
    assert expected.is_failure is fails


def test_suggestions_are_valid_and_every_result_has_a_name() -> None:
    assert len(set(SUGGESTED_ANSWERS)) == len(SUGGESTED_ANSWERS)
    for text in SUGGESTED_ANSWERS:
        parse_answer(text, pointer="answer")
    assert answer_name(Result.STATUS, 503) == "503"
    assert answer_name(Result.REFUSED, None) == "connection refused"
    assert len({answer_name(result, None) for result in Result}) == len(Result)

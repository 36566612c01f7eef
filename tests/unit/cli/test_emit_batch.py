"""A file of events, split into requests."""

from __future__ import annotations

import io
import json

import pytest

from hookfast.cli.remote.emit.batch import MAX_BYTES, MAX_EVENTS, chunks
from hookfast.errors import HookfastError


def _chunks(text: bytes, *, from_line: int = 1) -> list[tuple[list[bytes], list[int]]]:
    found = chunks(io.BytesIO(text), key="run", from_line=from_line)
    return [(chunk.events, chunk.lines) for chunk in found]


def test_an_event_keeps_its_text_and_gets_the_key_of_its_line() -> None:
    [(events, lines)] = _chunks(b'{"type": "a.b.c", "data": 1.0e2}\n\n  {"data":"\xc3\xa9"}  \r\n')
    assert events == [
        b'{"idempotency_key": "run:1", "type": "a.b.c", "data": 1.0e2}',
        b'{"idempotency_key": "run:3", "data":"\xc3\xa9"}',
    ]
    assert lines == [1, 3]


def test_an_event_with_a_key_of_its_own_keeps_it() -> None:
    text = b'{"idempotency_key": "mine", "data": 1}'
    assert _chunks(text) == [([text], [1])]


def test_a_request_takes_a_thousand_events() -> None:
    batches = _chunks(b'{"data": 1}\n' * (2 * MAX_EVENTS + 1))
    assert [len(events) for events, _ in batches] == [MAX_EVENTS, MAX_EVENTS, 1]
    assert [lines[0] for _, lines in batches] == [1, MAX_EVENTS + 1, 2 * MAX_EVENTS + 1]


def test_a_request_stays_well_under_the_largest_body() -> None:
    line = json.dumps({"data": "x" * (MAX_BYTES // 3)}).encode() + b"\n"
    assert [len(events) for events, _ in _chunks(line * 5)] == [2, 2, 1]


def test_a_run_can_begin_at_a_later_line() -> None:
    [(events, lines)] = _chunks(b"not JSON\n" + b'{"data": 1}\n' * 2, from_line=2)
    assert lines == [2, 3]
    assert b'"run:2"' in events[0]


@pytest.mark.parametrize("line", [b"nonsense", b"[1]", b"{}", b"\xff", b"[" * 100_000])
def test_events_before_an_invalid_line_are_sent(line: bytes) -> None:
    batches = chunks(io.BytesIO(b'{"data": 1}\n' + line), key="run", from_line=1)
    assert next(batches).lines == [1]
    with pytest.raises(HookfastError, match=r"^Line 2 is not"):
        next(batches)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"data": NaN}', "NaN and Infinity are not JSON at column 10; send null or a string"),
        (b'{"data": 1, "data": 2}', "two members of an object have the same name at column 13"),
        (b'{"data": "\\ud800"}', "unpaired surrogate at column 11"),
        (b'{"data": "\\u0000"}', "the character \\u0000 is not accepted at column 11"),
        (b'\xef\xbb\xbf{"data": 1}', "it starts with a byte order mark; send UTF-8 without one"),
        (b'{"data": 1', "Expecting ',' delimiter at column 11; correct it there"),
        (b'{"data": ' + b"[" * 70 + b"]" * 70 + b"}", "nests deeper than 64 levels at column 73"),
    ],
)
def test_json_that_the_api_would_reject_is_reported_with_its_line(line: bytes, why: str) -> None:
    """The API would reject the whole request, without naming the line."""
    batches = chunks(io.BytesIO(b'{"data": 1}\n\n' + line), key="run", from_line=1)
    assert next(batches).lines == [1]
    with pytest.raises(HookfastError) as raised:
        next(batches)
    assert raised.value.message.startswith("Line 3 is not JSON: ")
    assert why in raised.value.message

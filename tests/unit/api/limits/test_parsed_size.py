"""The estimate of the memory that parsed bodies take."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from urllib.parse import parse_qsl

import pytest

from api.limits.parsed_size import parsed_size
from hookfast.strict_json.parser import parse


@pytest.mark.parametrize(
    "body",
    [
        b"a=" + b"%20" * 100_000,
        b"a=" + b"%20x" * 100_000,
        b"a=" + b"%F0%9F%A6%8A" * 25_000,
        b"&".join(b"a%d=%s" % (number, b"%20" * 300) for number in range(300)),
        b"a=" + b"+" * 300_000,
        b"a=" + b"x" * 300_000,
    ],
    ids=lambda body: repr(body[:12]),
)
def test_parsed_form_takes_at_most_the_estimated_memory(body: bytes) -> None:
    assert peak_of(lambda: parse_qsl(body.decode(), keep_blank_values=True)) <= parsed_size(body)


@pytest.mark.parametrize(
    "element",
    [
        *("1", "1.1", "1e1", "1E1", "1.5e3", "0.0000000", "12345678901234567890", "-0"),
        *('""', '"a"', '"é"', "[]", "{}", "[1.5]", '{"":{}}', '{"a":1e5}', "null"),
    ],
)
def test_parsed_json_takes_at_most_the_estimated_memory(element: str) -> None:
    body = f"[{','.join([element] * 20_000)}]".encode()
    assert peak_of(lambda: parse(body)) <= parsed_size(body)


def peak_of(work: Callable[[], object]) -> int:
    """Return the most memory that some work takes, in bytes."""
    tracemalloc.start()
    try:
        result = work()
        _, peak = tracemalloc.get_traced_memory()
        del result
    finally:
        tracemalloc.stop()
    return peak

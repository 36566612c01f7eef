from __future__ import annotations

import pytest

from hookfast.telemetry import traceparent

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"


def test_new_traceparent_is_valid_sampled_and_unique() -> None:
    first, second = traceparent.new(), traceparent.new()
    assert traceparent.parse(first) == first
    assert first.endswith("-01")
    assert first != second


@pytest.mark.parametrize("flags", ["00", "01", "ff"])
def test_valid_traceparent_is_kept(flags: str) -> None:
    text = f"00-{TRACE}-{SPAN}-{flags}"
    assert traceparent.parse(text) == text


def test_known_fields_of_a_later_version_are_kept() -> None:
    assert traceparent.parse(f"01-{TRACE}-{SPAN}-01-more") == f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "garbage",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}-01-more",  # version 00 has exactly four fields
        f"ff-{TRACE}-{SPAN}-01",  # version ff is forbidden
        f"00-{'0' * 32}-{SPAN}-01",  # the all-zero ids are invalid
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",  # hex is lower case
        f"00-{TRACE}-{SPAN}-01\n",
        f" 00-{TRACE}-{SPAN}-01",
    ],
)
def test_invalid_traceparent_is_rejected(text: str) -> None:
    assert traceparent.parse(text) is None


def test_child_keeps_trace_and_flags_with_a_new_span() -> None:
    parent = f"00-{TRACE}-{SPAN}-00"
    child = traceparent.child(parent)
    assert traceparent.parse(child) == child
    assert child.split("-")[1] == TRACE
    assert child.split("-")[2] != SPAN
    assert child.endswith("-00")

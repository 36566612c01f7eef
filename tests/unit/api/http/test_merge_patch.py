from __future__ import annotations

from typing import Any

import pytest

from api.http.merge_patch import merge, patch_between

# RFC 7396, appendix A: target, patch, result
RFC_EXAMPLES: list[tuple[Any, Any, Any]] = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("target", "patch", "result"), RFC_EXAMPLES)
def test_merge_follows_the_examples_of_the_rfc(target: Any, patch: Any, result: Any) -> None:
    assert merge(target, patch) == result


@pytest.mark.parametrize(
    ("before", "after", "patch"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, {"b": None}),
        ({"a": 1}, {"a": 1, "b": 2}, {"b": 2}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, {"a": {"c": None}}),
        ({"a": {"b": {"c": 1}}, "d": 1}, {"a": {"b": {}}, "d": 1}, {"a": {"b": {"c": None}}}),
        ({"a": [1, 2]}, {"a": [1]}, {"a": [1]}),
        ({"a": "x"}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        ({"a": {"b": 1}}, {"a": "x"}, {"a": "x"}),
        ({"a": None}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        ("hourly", {"delays_seconds": [1]}, {"delays_seconds": [1]}),
        ({"a": 1}, {"a": 1}, {}),
    ],
)
def test_patch_between_two_documents_turns_one_into_the_other(
    before: Any, after: Any, patch: Any
) -> None:
    assert patch_between(before, after) == patch
    assert merge(before, patch) == after


def test_merge_does_not_change_its_arguments() -> None:
    target = {"a": {"b": 1}}
    assert merge(target, {"a": {"b": 2}}) == {"a": {"b": 2}}
    assert target == {"a": {"b": 1}}

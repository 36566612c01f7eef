"""Bounded schemas: results as from jsonschema, within a budget of time for any schema and data."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from hookfast.events.schema import BoundedSchema, Budget, OverBudget, compiled

PLENTY = 30.0
DIALECT = "https://json-schema.org/draft/2020-12/schema"
UNIQUE = {"uniqueItems": True}
NO_MORE = {"unevaluatedProperties": False}
TREE = {
    "$schema": DIALECT,
    "$defs": {"a": {"required": ["a"], "properties": {"a": {"type": "integer"}}}},
    "$ref": "#/$defs/a",
}


def errors(schema: Any, data: Any, *, seconds: float = PLENTY) -> list[tuple[Any, list[Any]]]:
    """Return each keyword that failed, and where."""
    found = BoundedSchema(schema).errors(data, Budget(seconds), most=20)
    return [(error.validator, list(error.absolute_path)) for error in found]


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        # Core, section 4.2.2: what is equal
        (UNIQUE, [1, True, "1", None, [1], [True], {"1": 1}, 0, False, "", {}, []]),
        (UNIQUE, [1, 2, 1.0]),
        (UNIQUE, [[1], [2], [1.0]]),
        (UNIQUE, [{"a": 1, "b": 2}, {"b": 2, "a": 1}]),
        (UNIQUE, [{"a": True}, {"a": 1}]),
        (UNIQUE, [10**30, 1e30, -0.0]),
        (UNIQUE, [0, -0.0]),
        (UNIQUE, [["a", "b"], ["ab"], ["a,b"], '"1:a', "a"]),
        ({"uniqueItems": False}, [1, 1]),
        (UNIQUE, {"not": "an array"}),
        # patterns match anywhere, and strings only
        ({"pattern": "b+"}, "abc"),
        ({"pattern": "^b"}, "abc"),
        ({"pattern": "^b"}, 5),
        ({"pattern": "a{e}"}, "a{e}"),
        ({"pattern": "a{e}"}, "b"),
        ({"pattern": r"\{e}|[{i}]|a\\{d}"}, "b"),
        ({"patternProperties": {"^x": {"type": "integer"}}}, {"x": "y", "z": "y"}),
        ({"patternProperties": {"^x": True}, "additionalProperties": False}, {"x": 1}),
        ({"patternProperties": {"^x": True}, "additionalProperties": False}, {"x": 1, "y": 2}),
        ({"properties": {"x": True}, "additionalProperties": {"type": "null"}}, {"x": 1, "y": 2}),
        ({"properties": {"x": True}, "additionalProperties": {"type": "null"}}, {"y": None}),
        # applicators
        ({"anyOf": [{"type": "null"}, {"minimum": 5}]}, 5),
        ({"anyOf": [{"type": "null"}, {"minimum": 5}]}, 4),
        ({"anyOf": [False]}, 4),
        ({"oneOf": [{"minimum": 5}, {"minimum": 7}]}, 6),
        ({"oneOf": [{"minimum": 5}, {"minimum": 7}]}, 8),
        ({"oneOf": [{"minimum": 5}, {"minimum": 7}]}, 4),
        (TREE, {"a": 1}),
        (TREE, {"a": "1"}),
        # unevaluated
        ({**NO_MORE, "properties": {"a": True}}, {"a": 1}),
        ({**NO_MORE, "properties": {"a": True}}, {"a": 1, "b": 2}),
        ({**NO_MORE, "allOf": [{"properties": {"a": True}}]}, {"a": 1}),
        ({**NO_MORE, "anyOf": [{"properties": {"a": {"type": "null"}}}]}, {"a": None}),
        ({**NO_MORE, "anyOf": [{"required": ["b"]}, {"properties": {"a": True}}]}, {"a": 1}),
        ({**NO_MORE, "patternProperties": {"^a": True}}, {"ab": 1}),
        ({**NO_MORE, "patternProperties": {"^a": True}}, {"ba": 1}),
        ({**NO_MORE, "dependentSchemas": {"a": {"properties": {"a": True}}}}, {"a": 1}),
        ({**NO_MORE, "if": {"required": ["a"]}, "then": {"properties": {"a": True}}}, {"a": 1}),
        ({**NO_MORE, "if": {"required": ["b"]}, "else": {"properties": {"a": True}}}, {"a": 1}),
        ({**NO_MORE, "if": {"required": ["b"]}, "then": {"properties": {"a": True}}}, {"a": 1}),
        ({**NO_MORE, **TREE}, {"a": 1}),
        ({**NO_MORE, **TREE}, {"a": 1, "b": 1}),
        ({"unevaluatedProperties": {"type": "integer"}}, {"a": 1}),
        ({"unevaluatedProperties": {"type": "integer"}}, {"a": "1"}),
        ({"unevaluatedItems": False, "prefixItems": [True]}, [1]),
        ({"unevaluatedItems": False, "prefixItems": [True]}, [1, 2]),
        ({"unevaluatedItems": False, "contains": {"const": 1}}, [1, 1]),
        ({"unevaluatedItems": False, "contains": {"const": 1}}, [1, 2]),
        ({"unevaluatedItems": {"type": "null"}, "prefixItems": [True]}, [1, None]),
        ({"unevaluatedItems": False, "allOf": [{"items": True}]}, [1, 2]),
    ],
    ids=str,
)
def test_results_are_those_of_jsonschema(schema: Any, data: Any) -> None:
    expected = [
        (error.validator, list(error.absolute_path))
        for error in Draft202012Validator(schema).iter_errors(data)
    ]
    assert errors(schema, data) == expected


def test_quadratic_keywords_take_linear_time() -> None:
    """With jsonschema, each took half a minute or more."""
    many = 20_000
    assert errors(UNIQUE, [{"a": n} for n in range(many)], seconds=5) == []
    members = {f"a{n}": 1 for n in range(many)}
    assert errors({**NO_MORE, "patternProperties": {"^a": True}}, members, seconds=5) == []
    ones = {"unevaluatedItems": False, "contains": {"const": 1}}
    assert errors(ones, [1] * many, seconds=5) == []
    assert errors({"pattern": "[^@]+@[^@]+"}, "a" * 100_000, seconds=5) == [("pattern", [])]


def _nested(levels: int) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for _ in range(levels):
        data = {"a": data, "b": 1}
    return data


DOUBLED = {
    "$schema": DIALECT,
    "$defs": {
        "n": {
            "required": ["b"],
            "properties": {"a": {"anyOf": [{"$ref": "#/$defs/n"}, {"$ref": "#/$defs/n"}]}},
        }
    },
    "$ref": "#/$defs/n",
}


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        ({"pattern": "[^@]+[@!][^@]+"}, "a" * 200_000),
        ({"patternProperties": {"[^@]+[@!][^@]+": False}}, {"a" * 200_000: 1}),
        ({"additionalProperties": False, "patternProperties": {"a+[@!]": {}}}, {"a" * 200_000: 1}),
        ({"propertyNames": {"pattern": "[^@]+[@!][^@]+"}}, {"a" * 200_000: 1}),
        ({"items": {"not": {"enum": list(range(5_000))}}}, [-1] * 50_000),
        (DOUBLED, _nested(60)),
        ({"$defs": DOUBLED["$defs"], "not": {"$ref": "#/$defs/n"}}, _nested(60)),
    ],
    ids=lambda value: str(value)[:60],
)
def test_slow_checks_end_with_their_budget(schema: Any, data: Any) -> None:
    with pytest.raises(OverBudget):
        errors(schema, data, seconds=0.2)


def test_used_up_budget_stays_used_up() -> None:
    budget = Budget(0.05)
    schema = BoundedSchema({"pattern": "[^@]+[@!][^@]+"})
    for _ in range(2):
        with pytest.raises(OverBudget):
            schema.errors("a" * 200_000, budget, most=1)


def test_brace_that_begins_no_repeat_is_literal() -> None:
    assert compiled("a{i}{2,3}").search("xa{i}}}") is not None
    assert compiled(r"\N{DIGIT ONE}").search("1") is not None

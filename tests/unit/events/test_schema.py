"""Compiled schemas: answers as from a second implementation, exact for numbers of any size, and in
bounded time for any schema and data."""

from __future__ import annotations

import contextlib
import json
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from hookfast.events.schema import CompiledSchema, InvalidSchema
from hookfast.events.schema_keywords import TooSlow
from hookfast.strict_json.text import from_text

DIALECT = "https://json-schema.org/draft/2020-12/schema"
UNIQUE = {"uniqueItems": True}
NO_MORE = {"unevaluatedProperties": False}
TREE = {
    "$schema": DIALECT,
    "$defs": {"a": {"required": ["a"], "properties": {"a": {"type": "integer"}}}},
    "$ref": "#/$defs/a",
}


def places(schema: Any, data: Any) -> list[list[str]]:
    """Return where each rule is broken."""
    found = CompiledSchema(schema).violations(data, most=20)
    return sorted([str(part) for part in one.path] for one in found)


def exact(text: str) -> Any:
    return json.loads(text, parse_float=Decimal)


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        # Core, section 4.2.2: what is equal
        (UNIQUE, [1, True, "1", None, [1], [True], {"1": 1}, 0, False, "", {}, []]),
        (UNIQUE, [1, 2, 1.0]),
        (UNIQUE, [[1], [2], [1.0]]),
        (UNIQUE, [{"a": 1, "b": 2}, {"b": 2, "a": 1}]),
        (UNIQUE, [{"a": True}, {"a": 1}]),
        (UNIQUE, [10**30, 1e29, -0.0]),
        (UNIQUE, [0, -0.0]),
        (UNIQUE, [["a", "b"], ["ab"], ["a,b"], '"1:a', "a"]),
        ({"uniqueItems": False}, [1, 1]),
        (UNIQUE, {"not": "an array"}),
        # patterns match anywhere, and strings only
        ({"pattern": "b+"}, "abc"),
        ({"pattern": "^b"}, "abc"),
        ({"pattern": "^b"}, 5),
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
def test_answer_is_that_of_a_second_implementation(schema: Any, data: Any) -> None:
    errors = Draft202012Validator(schema).iter_errors(data)
    assert places(schema, data) == sorted(
        [str(part) for part in each.absolute_path] for each in errors
    )


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        ('{"multipleOf": 0.01}', "19.99 0.07 1.11 4.02 19 1.10 0 -0.0 1e2", "19.991 0.001 1e-3"),
        ('{"multipleOf": 0.1}', "92.6 1e300", "92.65"),
        ('{"multipleOf": 1e-8}', "12391239123.00000001", "0.000000001"),
        ('{"multipleOf": 0.5}', f"1{'0' * 400} 1e308 1.5", "1.25"),
        (
            '{"multipleOf": 3}',
            f"9007199254740993 3.0 3{'0' * 400}",
            f"9007199254740992 1{'0' * 400}",
        ),
        (
            '{"multipleOf": 2}',
            "7451927393199881758658076.0 2e99999999",
            "7451927393199881758658077.5",
        ),
        ('{"multipleOf": 7e-99999999}', "7e-99999999 1.4e-99999998", "7e-100000000 8e-99999999"),
        ('{"multipleOf": 0.03}', "3e99999999 0.3", "1e99999999 0.31"),
        ('{"maximum": 9007199254740992}', "9007199254740992.0", "9007199254740993.0 1e400"),
        ('{"minimum": 9007199254740993}', "9007199254740993.0 1e400", "9007199254740992.5"),
        ('{"exclusiveMaximum": 9007199254740990.5}', "9007199254740990", "9007199254740990.5"),
        ('{"minimum": 0.1}', "0.1 0.10000000000000000001", "0.09999999999999999999"),
        ('{"exclusiveMaximum": 0.1}', "0.09999999999999999999", "0.1 0.10"),
        ('{"exclusiveMinimum": 0.1}', "0.10000000000000000001 1e400", "0.1 1e-400 -1e400"),
        ('{"const": 0.1}', "0.1 0.10 1e-1", "0.10000000000000000001"),
        ('{"const": 9007199254740993}', "9007199254740993.0", "9007199254740992.0"),
        ('{"const": 1e400}', f"1{'0' * 400}", "1e401 1.1e400"),
        ('{"enum": [0.1, 9007199254740993]}', "0.10 9007199254740993.0", "9007199254740992"),
        ('{"enum": [1e-400]}', "10e-401", "0 0.0"),
        ('{"enum": [100, [1.0], {"a": 2}]}', '1e2 [1] {"a":2.0}', "true 1 [true]"),
        ('{"uniqueItems": true}', "[9007199254740992,9007199254740993.0] [1,true]", "[1,1.00]"),
        ('{"uniqueItems": true}', "[0.1,0.10000000000000000001] [0,false]", "[0.0,-0.0] [10,1e1]"),
        ('{"type": "integer"}', "1.0 1e400 9007199254740993.0", "1.5 1e-400 9007199254740993.1"),
    ],
)
def test_numbers_are_compared_as_written(schema: str, valid: str, invalid: str) -> None:
    compiled = CompiledSchema(exact(schema))
    for text in valid.split():
        assert compiled.violations(exact(text), most=1) == [], text
    for text in invalid.split():
        assert compiled.violations(exact(text), most=1) != [], text


NUMBERS = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "-"]),
    st.integers(0, 10**25),
    st.one_of(st.just(""), st.integers(0, 10**25).map(".{}".format)),
    st.one_of(st.just(""), st.integers(-30, 30).map("e{}".format)),
)

# beyond a double at both ends, beyond what Python writes, and multiples of each other
HUGE_NUMBERS = st.one_of(
    st.builds(
        "{}{}e{}".format, st.sampled_from(["", "-"]), st.integers(0, 99), st.integers(-5_000, 5_000)
    ),
    st.builds(
        "{}{}".format,
        st.integers(-99, -1) | st.integers(1, 99),
        st.integers(0, 6_000).map("0".__mul__),
    ),
    st.builds("0.{}{}".format, st.integers(0, 6_000).map("0".__mul__), st.integers(0, 99)),
    NUMBERS,
)


@given(st.one_of(st.tuples(NUMBERS, NUMBERS), st.tuples(HUGE_NUMBERS, HUGE_NUMBERS)))
def test_numbers_relate_as_fractions_do(numbers: tuple[str, str]) -> None:
    limit, text = numbers
    number, other = Fraction(Decimal(text)), Fraction(Decimal(limit))
    expected = {
        "minimum": number >= other,
        "maximum": number <= other,
        "exclusiveMinimum": number > other,
        "exclusiveMaximum": number < other,
        "const": number == other,
    }
    if other > 0:
        expected["multipleOf"] = (number / other).denominator == 1
    for keyword, fits in expected.items():
        compiled = CompiledSchema({keyword: from_text(limit)})
        assert (compiled.violations(from_text(text), most=1) == []) is fits, keyword
    unequal = number != other
    assert (
        CompiledSchema(UNIQUE).violations([from_text(text), from_text(limit)], most=1) == []
    ) is unequal
    assert (
        CompiledSchema({"enum": [from_text(limit)]}).violations(from_text(text), most=1) == []
    ) is (not unequal)


@pytest.mark.parametrize(
    ("schema", "data", "detail"),
    [
        ({"type": "integer"}, "s3cret", 'does not satisfy the schema\'s "type": "integer"'),
        ({"properties": {"a": False}}, {"a": 1}, "the schema allows nothing here"),
        (False, 1, "the schema allows nothing here"),
        (
            {"additionalProperties": False},
            {"s3cret": 1},
            'does not satisfy the schema\'s "additionalProperties": false',
        ),
        ({"pattern": r"^\d$"}, "s3cret", 'does not satisfy the schema\'s "pattern": "^\\\\d$"'),
        (
            {"multipleOf": Decimal("0.01")},
            0.001,
            'does not satisfy the schema\'s "multipleOf": 0.01',
        ),
        (
            {"$ref": "#/$defs/n", "$defs": {"n": {"minimum": 5}}},
            1,
            'does not satisfy the schema\'s "minimum": 5',
        ),
    ],
)
def test_violation_names_the_rule_and_not_the_data(schema: Any, data: Any, detail: str) -> None:
    [found] = CompiledSchema(schema).violations(data, most=20)
    assert found.detail == detail


class Written(Decimal):
    """A number that is written in another way than Python would."""

    def __new__(cls, text: str, value: str) -> Written:
        number = super().__new__(cls, value)
        number.text = text
        return number

    def __str__(self) -> str:
        return self.text


@pytest.mark.parametrize("within", ["not", "anyOf", "items", "contains", "enum"])
def test_numbers_that_keep_their_text_are_compared_by_it(within: str) -> None:
    number, other = Written("1E5", "100000"), Written("1e99999999999999999999", "Infinity")
    schema = {
        "not": {"not": {"const": Written("1.0e5", "100000")}},
        "anyOf": [{"const": 100_000}, {"items": {"type": "integer", "maximum": 100_000}}],
        "items": {"const": Decimal("1e5"), "multipleOf": Written("1E-2", "0.01")},
        "contains": {"minimum": 100_000, "maximum": Decimal("1e5")},
        "enum": [number, [number]],
    }
    compiled = CompiledSchema({within: schema[within]})
    for data in (number, [number]):
        fits = within != "not" or data is number
        assert (compiled.violations(data, most=1) == []) is fits
    for data in ([other], [number, other]) if within != "contains" else ([other],):
        assert compiled.violations(data, most=1) != []


@pytest.mark.parametrize(
    "number", ["1e308", "1e400", "1e-400", "0.5", f"1{'0' * 5_000}", "2e999999"]
)
@pytest.mark.parametrize("counted", ["Length", "Items", "Properties", "Contains"])
@pytest.mark.parametrize("bound", ["min", "max"])
def test_limit_of_a_count_of_any_size_is_applied_or_refused(
    bound: str, counted: str, number: str
) -> None:
    schema = {"contains": True, f"{bound}{counted}": from_text(number)}
    data = {"Length": "x", "Items": [1], "Properties": {"a": 1}, "Contains": [1]}[counted]
    try:
        compiled = CompiledSchema(schema)
    except InvalidSchema:
        return
    fits = Decimal(number) <= 1 if bound == "min" else Decimal(number) >= 1
    assert (compiled.violations(data, most=1) == []) is fits


@pytest.mark.parametrize("digits", [4_301, 100_000])
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string"},
        {"const": 1},
        {"enum": [1]},
        {"minimum": 1},
        {"multipleOf": 7},
        {"anyOf": [{"const": 1}, {"type": "null"}]},
        {"type": "object"},
    ],
    ids=str,
)
def test_integer_of_more_digits_than_python_writes_is_checked(schema: Any, digits: int) -> None:
    assert places(schema, from_text(f"-{'1' * digits}")) == [[]]
    assert places({"type": "integer"}, from_text("1" * digits)) == []


def test_lone_surrogates_are_characters() -> None:
    schema = {"additionalProperties": {"maxLength": 1, "pattern": "^.$"}}
    assert places(schema, {"\udc00": "\ud800"}) == []
    assert places(schema, {"a": "\ud800\ud800"}) == [["a"], ["a"]]


def _nested(levels: int) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for _ in range(levels):
        data = {"a": data, "b": 1}
    return data


def _doubled(levels: int) -> dict[str, Any]:
    """Return a schema whose last subschema is applied two to the power of `levels` times."""
    steps = {
        f"n{level}": {"allOf": [{"$ref": f"#/$defs/n{level + 1}"}] * 2} for level in range(levels)
    }
    return {"$ref": "#/$defs/n0", "$defs": {**steps, f"n{levels}": {"type": "integer"}}}


def _unevaluated(levels: int) -> dict[str, Any]:
    return reduce(
        lambda inner, _: {**NO_MORE, "allOf": [inner]}, range(levels), {"properties": {"a": True}}
    )


LIST = {"$ref": "#/$defs/n", "$defs": {"n": {"properties": {"next": {"$ref": "#/$defs/n"}}}}}


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        (_doubled(20), ()),
        (_unevaluated(20), ()),
        ({"items": {"anyOf": [{"$ref": "#"}] * 150}}, ()),
        ({"$ref": "#"}, ()),
        ({"not": {"$ref": "#/not"}}, ("not",)),
        ({"allOf": [{"anyOf": [{"$ref": "#"}]}]}, ()),
        ({"x-there": {"if": {"$ref": "#/x-there"}}, "$ref": "#/x-there"}, ("x-there",)),
        ({"pattern": "(?:a{500}){500}"}, ("pattern",)),
        ({"pattern": "^.{0,20000}$"}, ("pattern",)),
        (
            {"items": {"prefixItems": [{"pattern": r"\p{L}{2001}"}]}},
            ("items", "prefixItems", 0, "pattern"),
        ),
        (
            {"allOf": [{"pattern": rf"{n}\p{{L}}{{500}}"} for n in range(5)]},
            ("allOf", 3, "pattern"),
        ),
        ({"pattern": r"\p{Cs}"}, ("pattern",)),
    ],
    ids=lambda value: str(value)[:60],
)
def test_schema_that_could_take_too_long_is_refused(schema: Any, path: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidSchema) as caught:
        CompiledSchema(schema)
    assert caught.value.path == path


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        (LIST, {"next": {"next": {}}}),
        ({"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}, {"left": {"right": {}}}),
        ({"items": {"$ref": "#"}, "additionalProperties": {"$ref": "#"}}, [{"a": []}]),
        (
            {"properties": {"a": {"$ref": "#"}}, "additionalProperties": {"$ref": "#"}},
            {"a": {"a": {}}},
        ),
        ({"prefixItems": [{"$ref": "#"}], "items": {"$ref": "#"}}, [[[]], [[]]]),
        (_doubled(10), 1),
        (_unevaluated(8), {"a": 1}),
        (
            {
                "oneOf": [
                    {
                        "required": ["type", "body"],
                        "properties": {
                            "type": {"enum": [f"thing.{n}.changed"]},
                            "body": {"properties": {f"f{m}": {"type": "string"} for m in range(9)}},
                        },
                    }
                    for n in range(200)
                ]
            },
            {"type": "thing.199.changed", "body": {"f1": "x"}},
        ),
        (
            {"properties": {f"p{n}": {"pattern": "^[a-z]{1,64}$"} for n in range(500)}},
            {"p499": "x"},
        ),
        ({"pattern": r"^\p{L}{1,1000}$"}, "é" * 1_000),
        ({"pattern": r"^[\s\S]{0,10000}$"}, "é" * 10_000),
    ],
    ids=lambda value: str(value)[:60],
)
def test_large_schema_is_accepted(schema: Any, data: Any) -> None:
    assert places(schema, data) == []


def _tagged(*names: str, **members: Any) -> dict[str, Any]:
    """Return a schema of a tree whose nodes have one of these kinds."""
    kinds = [
        {
            "required": ["kind"],
            "properties": {"kind": {"const": name}, **members},
            "additionalProperties": False,
        }
        for name in names
    ]
    return {"oneOf": kinds}


CONDITIONS = {
    "properties": {
        "all": {"type": "array", "items": {"$ref": "#"}},
        "any": {"type": "array", "items": {"$ref": "#"}},
        "not": {"$ref": "#"},
        "field": {"type": "string"},
    },
    "additionalProperties": False,
}
# Core, section 8.2.3.2
STRICT_TREE = {
    "$id": "https://example.com/strict-tree",
    "$dynamicAnchor": "node",
    "$ref": "tree",
    "unevaluatedProperties": False,
    "$defs": {
        "tree": {
            "$id": "https://example.com/tree",
            "$dynamicAnchor": "node",
            "properties": {
                "data": True,
                "children": {"type": "array", "items": {"$dynamicRef": "#node"}},
            },
        }
    },
}
WIDE = {
    "$defs": {
        "user": {
            "required": [f"u{n}" for n in range(20)],
            "properties": {f"u{n}": {"type": "integer"} for n in range(20)},
            "additionalProperties": False,
        }
    },
    "items": {"$ref": "#/$defs/user"},
}
USER = {f"u{n}": n for n in range(20)}


@pytest.mark.parametrize(
    ("schema", "valid", "invalid", "place"),
    [
        (
            CONDITIONS,
            {"all": [{"not": {"any": [{"field": "a"}]}}] * 5},
            {"all": [{"not": {"any": [{"feild": "a"}]}}]},
            ["all", "0", "not", "any", "0"],
        ),
        (
            STRICT_TREE,
            {"children": [{"children": [{"data": 1}] * 9}] * 9},
            {"children": [{"children": [{"data": 1}, {"daat": 1}]}]},
            ["children", "0", "children", "1"],
        ),
        (
            _tagged("a", "b", children={"items": {"$ref": "#"}}),
            {"kind": "a", "children": [{"kind": "b", "children": [{"kind": "a"}]}]},
            {"kind": "a", "children": [{"kind": "c"}]},
            [],
        ),
        (
            _tagged(*"abcdefghijkl", left={"$ref": "#"}, right={"$ref": "#"}),
            {"kind": "a", "left": {"kind": "b", "right": {"kind": "c"}}},
            {"kind": "a", "left": {"kind": "b", "right": {"kind": "?"}}},
            [],
        ),
        (WIDE, [USER] * 200, [USER] * 150 + [{**USER, "u7": "7"}] + [USER] * 49, ["150", "u7"]),
    ],
    ids=["conditions", "strict tree", "two kinds", "twelve kinds", "many values"],
)
def test_realistic_schema_says_where_data_breaks_it(
    schema: Any, valid: Any, invalid: Any, place: list[str]
) -> None:
    assert places(schema, valid) == []
    assert places(schema, invalid) == [place]


def _list_of(levels: int) -> Any:
    return reduce(lambda inner, _: [inner], range(levels), cast("Any", 1))


@pytest.mark.parametrize(
    "schema",
    [
        {"items": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}},
        {"items": {"not": {"oneOf": [{"$ref": "#"}, {"$ref": "#"}]}}},
        {"$dynamicAnchor": "n", "items": {"allOf": [{"$dynamicRef": "#n"}] * 2}},
        {"allOf": [{"items": {"$ref": "#"}}], "unevaluatedItems": {"$ref": "#"}},
        _tagged(*"abc", items={"$ref": "#"}) | {"items": {"$ref": "#/oneOf/0"}},
    ],
    ids=lambda value: str(value)[:60],
)
def test_depth_of_the_data_bounds_a_check_that_doubles_with_each_level(schema: Any) -> None:
    compiled = CompiledSchema(schema)
    for levels in range(64):
        with contextlib.suppress(TooSlow):
            compiled.violations(_list_of(levels), most=1)


MANY = 20_000
LETTERS = "a" * 262_144


@pytest.mark.parametrize(
    ("schema", "data", "expected"),
    [
        (UNIQUE, [{"a": n} for n in range(MANY)], []),
        (UNIQUE, [10**30 + n for n in range(MANY)], []),
        # their hashes are the same
        (UNIQUE, [n * (2**61 - 1) for n in range(11_000)], []),
        ({"items": {"not": {"enum": list(range(5_000))}}}, [4_999.5] * MANY, []),
        ({"items": {"not": {"enum": [{"a": n} for n in range(5_000)]}}}, [{"a": -1}] * MANY, []),
        ({**NO_MORE, "patternProperties": {"^a": True}}, {f"a{n}": 1 for n in range(MANY)}, []),
        ({"unevaluatedItems": False, "contains": {"const": 1}}, [1] * MANY, []),
        ({"pattern": "[^@]+@[^@]+"}, LETTERS, [[]]),
        ({"pattern": "(a+)+$"}, LETTERS + "!", [[]]),
        ({"pattern": r"^(?!.*\.\.)a*$"}, LETTERS, []),
        # of so much data, it is not said where each error is
        ({"items": {"type": "string"}}, [1] * 100_000, [["0"]]),
        ({"anyOf": [{"items": {"type": "string"}}]}, [1] * 100_000, [[]]),
        ({"items": {"anyOf": [{"const": n} for n in range(100)]}}, [-1] * MANY, [[]]),
    ],
    ids=lambda value: str(value)[:60],
)
def test_keywords_that_are_quadratic_elsewhere_are_checked(
    schema: Any, data: Any, expected: Any
) -> None:
    """With the validators' own keywords, most of these take minutes."""
    assert places(schema, data) == expected


STEPS_BACK = r"(a*)\1b"


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        ({"pattern": STEPS_BACK}, LETTERS),
        ({"not": {"pattern": STEPS_BACK}}, LETTERS),
        ({"anyOf": [{"not": {"anyOf": [{"pattern": STEPS_BACK}]}}]}, LETTERS),
        ({"pattern": "(?=a)(a+a+)+y"}, LETTERS),
        ({"pattern": r"(?!.*\.\.)b"}, LETTERS),
        ({"propertyNames": {"pattern": STEPS_BACK}}, {LETTERS: 1}),
        ({"not": {"patternProperties": {STEPS_BACK: False}}}, {LETTERS: 1}),
        ({**NO_MORE, "patternProperties": {STEPS_BACK: True}}, {"x": [{LETTERS: 1}]}),
        ({"pattern": "[ab]*a[ab]{5000}c"}, LETTERS),
        ({"patternProperties": {"[ab]*a[ab]{5000}c": False}}, {LETTERS: 1}),
        ({"allOf": [{"not": {"pattern": f"a{{80}}b|{n}"}} for n in range(150)]}, LETTERS),
        (_doubled(10), [1] * 100_000),
        ({"items": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}}, _list_of(40)),
        ({"items": {"not": {"required": [f"k{n}" for n in range(5_000)]}}}, [{}] * 80_000),
        ({"allOf": [UNIQUE] * 100}, [[n] for n in range(40_000)]),
    ],
    ids=lambda value: str(value)[:60],
)
def test_check_that_would_take_too_long_ends_without_an_answer(schema: Any, data: Any) -> None:
    with pytest.raises(TooSlow):
        CompiledSchema(schema).violations(data, most=1)


def test_schema_inside_a_schema_has_no_dialect_of_its_own() -> None:
    inner = {"$schema": "http://json-schema.org/draft-04/schema#", "exclusiveMinimum": 5}
    assert places({"items": inner}, [5, 6]) == [["0"]]


def test_two_patterns_that_the_engine_reads_alike_are_both_applied() -> None:
    schema = {"patternProperties": {r"^\d$": {"type": "integer"}, "^[0-9]$": {"minimum": 5}}}
    assert places(schema, {"1": "x", "2": 1, "3": 5}) == [["1"], ["2"]]

"""Content filters: their meaning, the laws that hold for all of them, and their limits."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from fractions import Fraction
from itertools import chain
from operator import eq, ge, gt, le, lt
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookfast.errors import InvalidInput
from hookfast.events.filter import (
    MAX_BYTES,
    MAX_CONDITIONS,
    MAX_DEPTH,
    MAX_STEPS,
    MAX_VALUES,
    OPERATORS,
    OverLimit,
    Steps,
    compiled,
    filter_text,
    parse_filter,
)
from hookfast.strict_json.text import from_text, to_text
from tests.support.work import calls_made_by
from tests.unit.strict_json.numbers_as_text import NUMBERS

ORDER: Any = {
    "status": "paid",
    "amount": 129_900,
    "rate": Decimal("0.5"),
    "big": 9_007_199_254_740_993,  # 2^53 + 1, which no double has
    "express": True,
    "coupon": None,
    "paid_at": "2026-11-20T11:15:00Z",
    "customer": {"country": "DE", "email": "ada@example.com", "address": {"city": "Köln"}},
    "tags": ["gift", "urgent"],
    "matrix": [[1, 2], [3]],
    "items": [
        {"sku": "A-1", "quantity": 1, "sizes": ["S", "M"]},
        {"sku": "B-2", "quantity": 9},
    ],
    "none": [],
    "a.b": 1,
    "$ref": 2,
    "[0]": 3,
}


def matches(conditions: Any, data: Any = ORDER) -> bool:
    return parse_filter(conditions).matches(data, Steps())


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        # equality
        ({"status": "paid"}, True),
        ({"status": "Paid"}, False),
        ({"amount": 129_900.0}, True),
        ({"amount": "129900"}, False),
        ({"express": True}, True),
        ({"express": 1}, False),
        ({"big": 9_007_199_254_740_992.0}, False),
        ({"big": {"$gt": 9_007_199_254_740_992}}, True),
        ('{"big": 9007199254740993.0}', True),
        ('{"rate": 0.5000000000000000000}', True),
        ('{"rate": 5e-1}', True),
        ('{"rate": 0.50000000000000000001}', False),
        ('{"rate": {"$lt": 0.50000000000000000001}}', True),
        ('{"rate": {"$in": [0.50000000000000000001, 500e-3]}}', True),
        ({"coupon": None}, True),
        ({"missing": None}, False),
        ({"status": "paid", "amount": 5}, False),
        ({"customer": {"$eq": {"country": "DE"}}}, False),
        ({"items": {"$eq": [{"quantity": 1, "sizes": ["S", "M"], "sku": "A-1"}, 0]}}, False),
        ({"tags": {"$eq": ["gift", "urgent"]}}, True),
        ({"tags": {"$eq": ["urgent", "gift"]}}, False),
        ({"none": {"$eq": []}}, True),
        # nested members and paths
        ({"customer": {"country": "DE"}}, True),
        ({"customer.country": "DE"}, True),
        ({"customer.address": {"city": "Köln"}}, True),
        ({"customer.address.city": {"$neq": "Köln"}}, False),
        ({"status.length": {"$exist": False}}, True),
        (r'{"a\\.b": 1}', True),
        ({"a.b": 1}, False),
        ({"$$ref": 2}, True),
        (r'{"\\[0]": 3}', True),
        # order
        ({"amount": {"$gte": 129_900, "$lt": 130_000}}, True),
        ({"amount": {"$gt": 129_900}}, False),
        ({"amount": {"$gt": "1"}}, False),
        ({"express": {"$gte": 1}}, False),
        ({"coupon": {"$lte": 0}}, False),
        ({"paid_at": {"$gte": "2026-11-01", "$lt": "2026-12-01"}}, True),
        # lists of values, parts of strings
        ({"status": {"$in": ["paid", "sent"]}}, True),
        ({"express": {"$in": [1, "true"]}}, False),
        ({"coupon": {"$in": [None]}}, True),
        ({"missing": {"$in": [None]}}, False),
        ({"rate": {"$in": [0.5]}}, True),
        ({"status": {"$nin": ["paid"]}}, False),
        ({"missing": {"$nin": ["paid"]}}, True),
        ({"customer.email": {"$endsWith": "@example.com"}}, True),
        ({"status": {"$startsWith": ["x", "pa"]}}, True),
        ({"amount": {"$startsWith": "1"}}, False),
        ({"customer.email": {"$contains": "@"}}, True),
        ({"tags": {"$contains": "gift"}}, True),
        ({"tags": {"$contains": "gif"}}, False),
        ({"matrix": {"$contains": 3}}, True),
        ({"customer": {"$contains": "country"}}, False),
        # presence
        ({"coupon": {"$exist": True}}, True),
        ({"missing": {"$exist": False}}, True),
        ({"missing.deeper": {"$exist": True}}, False),
        # arrays
        ({"tags": "urgent"}, True),
        ({"tags": ["urgent", "gift"]}, True),
        ({"tags": ["urgent", "blue"]}, False),
        ({"status": ["paid"]}, False),
        ({"matrix": 3}, True),
        ({"tags": {"$startsWith": "ur"}}, True),
        ({"tags": {"$neq": "gift"}}, False),
        ({"tags": {"$neq": "blue"}}, True),
        ({"tags": {"$nin": ["blue", "gift"]}}, False),
        ({"items": {"sku": "A-1", "quantity": 9}}, False),  # of one and the same element
        ({"items.sku": "A-1", "items.quantity": 9}, True),  # each of any element
        ({"items": [{"sku": "A-1"}, {"quantity": 9}]}, True),
        ({"items": {"quantity": {"$gt": 2, "$lt": 8}}}, False),
        ({"items": {"sku": {"$neq": "A-1"}}}, True),  # there is another one
        ({"items": {"$not": {"sku": "A-1"}}}, False),  # none of them is
        ({"items.sizes": "M"}, True),
        ({"none.sku": {"$exist": False}}, True),
        ({"none": {"sku": "A-1"}}, False),
        ({"none": {"$neq": "x"}}, True),
        # logic
        ({"$or": [{"status": "sent"}, {"express": True}]}, True),
        ({"$or": [{"status": "sent"}, {"express": False}]}, False),
        ({"$and": [{"status": "paid"}, {"amount": {"$gt": 1}}], "express": True}, True),
        ({"status": {"$or": ["sent", {"$startsWith": "pa"}]}}, True),
        ({"status": {"$not": "paid"}}, False),
        ({"missing": {"$not": {"$gt": 1}}}, True),
        ({"$not": {"status": "paid", "express": False}}, True),
    ],
)
def test_condition_matches_the_order(conditions: Any, expected: bool) -> None:
    parsed = from_text(conditions if isinstance(conditions, str) else json.dumps(conditions))
    assert matches(parsed) is expected
    assert compiled(filter_text(parsed)).matches(ORDER, Steps()) is expected


@pytest.mark.parametrize(
    ("conditions", "data", "expected"),
    [
        ({"$eq": 5}, 5, True),
        ({"$gt": 4}, [1, 5], True),
        ({"sku": "A"}, [{"sku": "B"}, {"sku": "A"}], True),
        ({"sku": "A"}, "A", False),
        ({"sku": {"$exist": False}}, None, True),
        ({"$exist": True}, None, True),
    ],
)
def test_data_need_not_be_an_object(conditions: Any, data: Any, expected: bool) -> None:
    assert matches(conditions, data) is expected


def many(count: int) -> dict[str, int]:
    return {f"m{n}": n for n in range(count)}


def nested(levels: int) -> dict[str, Any]:
    conditions: dict[str, Any] = {"a": 1}
    for _ in range(levels - 1):
        conditions = {"a": conditions}
    return conditions


@pytest.mark.parametrize(
    ("conditions", "pointer", "words"),
    [
        ([], "/filter", "JSON object"),
        ("paid", "/filter", "JSON object"),
        ({"a": {"$gtee": 1}}, "/filter/a/$gtee", "did you mean `$gte`?"),
        ({"a": {"$ne": 1}}, "/filter/a/$ne", "did you mean `$neq`?"),
        ({"a": {"$exists": True}}, "/filter/a/$exists", "did you mean `$exist`?"),
        ({"a": {"$regex": "x"}}, "/filter/a/$regex", "the operators are $eq, "),
        ({"$": 1}, "/filter/$", "unknown operator"),
        ({"a": {}}, "/filter/a", '{"$exist": true}'),
        ({"a": []}, "/filter/a", '{"$eq": []}'),
        ({"$or": {"a": 1}}, "/filter/$or", "list of at least one condition"),
        ({"$and": []}, "/filter/$and", "list of at least one condition"),
        ({"$or": [{"a/b": {"$gt": None}}]}, "/filter/$or/0/a~1b/$gt", "a number or a string"),
        ({"a": {"$lt": True}}, "/filter/a/$lt", "a number or a string"),
        ({"a": {"$in": "x"}}, "/filter/a/$in", "`$contains` looks for a part of a string"),
        ({"a": {"$nin": []}}, "/filter/a/$nin", f"1 to {MAX_VALUES} values"),
        ({"a": {"$in": [1, [2]]}}, "/filter/a/$in/1", "`$or` with `$eq`"),
        ({"a": {"$in": [1] * 201}}, "/filter/a/$in", f"1 to {MAX_VALUES} values"),
        ({"a": {"$exist": 1}}, "/filter/a/$exist", "true or false"),
        ({"a": {"$startsWith": [1]}}, "/filter/a/$startsWith", "a list of 1 to"),
        ({"a": {"$contains": ["x"]}}, "/filter/a/$contains", "takes a string"),
        ({"a": {"$not": {"$x": 1}}}, "/filter/a/$not/$x", "unknown operator"),
        ({"a..b": 1}, "/filter/a..b", "no empty parts"),
        ({"": 1}, "/filter/", "no empty parts"),
        ({"a\\": 1}, "/filter/a\\", "backslash"),
        ({"a\\b": 1}, "/filter/a\\b", "backslash"),
        ({"items.$.sku": 1}, "/filter/items.$.sku", "no indexes"),
        ({"items[0].sku": 1}, "/filter/items[0].sku", "no indexes"),
        ({"a": "x" * MAX_BYTES}, "/filter", f"at most {MAX_BYTES} bytes"),
        (many(MAX_CONDITIONS), f"/filter/m{MAX_CONDITIONS - 1}", f"{MAX_CONDITIONS} conditions"),
        (nested(MAX_DEPTH + 1), "/filter" + "/a" * (MAX_DEPTH + 1), f"{MAX_DEPTH} levels"),
        ({".".join("a" * (MAX_DEPTH + 1)): 1}, "/filter/" + ".".join("a" * 17), "levels"),
    ],
)
def test_invalid_filter_says_where_and_what_to_write(
    conditions: Any, pointer: str, words: str
) -> None:
    with pytest.raises(InvalidInput) as raised:
        parse_filter(conditions)
    [error] = raised.value.errors
    assert raised.value.code == "invalid_filter"
    assert error.pointer == pointer
    assert words in error.detail


def test_filter_at_its_limits_is_valid() -> None:
    parse_filter(many(MAX_CONDITIONS - 1))
    parse_filter(nested(MAX_DEPTH))
    parse_filter({"a": {"$in": [n for n in range(MAX_VALUES)]}})


# -- laws

_NAMES = st.sampled_from(["a", "b"])
_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-1, 2),
    NUMBERS.map(from_text),
    st.sampled_from(list(map(from_text, ["0.0", "0.5", "1.0", "1e308", "9007199254740993.0"]))),
    st.sampled_from([2**53, 2**53 + 1]),
    st.sampled_from(["", "x", "xy", "y", "1"]),
)
_DATA = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=2),
    max_leaves=6,
)
_COMPARED = st.integers(-1, 2) | st.sampled_from([Decimal("0.5"), 2**53, "x", ""])
_OPERATIONS = st.one_of(
    st.tuples(st.sampled_from(["$eq", "$neq"]), _DATA),
    st.tuples(st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), _COMPARED),
    st.tuples(st.sampled_from(["$in", "$nin"]), st.lists(_SCALARS, min_size=1, max_size=3)),
    st.tuples(st.just("$exist"), st.booleans()),
    st.tuples(st.sampled_from(["$startsWith", "$endsWith"]), st.sampled_from(["", "x", "y"])),
    st.tuples(st.just("$contains"), _SCALARS),
)


def _objects(inner: Any) -> Any:
    several = st.lists(inner, min_size=1, max_size=2)
    entry = st.one_of(
        _OPERATIONS,
        st.tuples(st.sampled_from(["a", "b", "a.b", "b.b"]), inner),
        st.tuples(st.sampled_from(["$and", "$or"]), several),
        st.tuples(st.just("$not"), inner),
    )
    return st.lists(entry, min_size=1, max_size=3).map(dict) | several


_CONDITIONS = st.recursive(_SCALARS | _OPERATIONS.map(lambda one: dict([one])), _objects)
_FILTERS = _CONDITIONS.filter(lambda one: len(to_text(one)) < 2_000)
_MISSING = object()


def _tagged(value: Any) -> Any:
    """A value that Python compares as JSON's values are to be compared."""
    if isinstance(value, bool) or value is None or value is _MISSING:
        return str(value), 0
    if isinstance(value, int | Decimal):
        return "number", Fraction(value)
    if isinstance(value, list):
        return "array", tuple(map(_tagged, value))
    if isinstance(value, dict):
        return "object", frozenset((name, _tagged(each)) for name, each in value.items())
    return "string", value


def _candidates(value: Any) -> list[Any]:
    """The value, or the array, all its elements, and theirs."""
    inner = map(_candidates, value) if isinstance(value, list) else ()
    return [value, *chain.from_iterable(inner)]


def _operation(name: str, operand: Any, value: Any) -> bool:
    kind, content = _tagged(value)
    wanted, limit = (None, None) if name in ("$in",) else _tagged(operand)
    match name:
        case "$eq":
            return (kind, content) == (wanted, limit)
        case "$in":
            return (kind, content) in [_tagged(each) for each in operand]
        case "$startsWith" | "$endsWith":
            does = str.startswith if name == "$startsWith" else str.endswith
            return kind == "string" and does(content, operand)
    compare = {"$gt": gt, "$gte": ge, "$lt": lt, "$lte": le}[name]
    return kind == wanted and bool(compare(content, limit))


def holds(conditions: Any, value: Any) -> bool:
    """The meaning of a condition, as the documentation says it, without a thought about speed."""
    if isinstance(conditions, list):
        return isinstance(value, list) and all(
            any(holds(one, each) for each in value) for one in conditions
        )
    if not isinstance(conditions, dict):
        return holds({"$eq": conditions}, value)
    of_element: list[tuple[str, Any]] = []
    for name, operand in conditions.items():
        match name:
            case "$neq":
                fine = not holds({"$eq": operand}, value)
            case "$nin":
                fine = not holds({"$in": operand}, value)
            case "$exist":
                fine = (value is not _MISSING) == operand
            case "$not":
                fine = not holds(operand, value)
            case "$and":
                fine = all(holds(one, value) for one in operand)
            case "$or":
                fine = any(holds(one, value) for one in operand)
            case "$contains" if isinstance(value, str):
                fine = isinstance(operand, str) and operand in value
            case "$contains":
                fine = isinstance(value, list) and holds({"$eq": operand}, value)
            case _:
                of_element.append((name, operand))
                continue
        if not fine:
            return False

    def all_hold(candidate: Any) -> bool:
        for name, operand in of_element:
            if name.startswith("$"):
                if not _operation(name, operand, candidate):
                    return False
                continue
            if isinstance(candidate, list) and candidate:
                return False
            first, _, rest = name.partition(".")
            inner = candidate.get(first, _MISSING) if isinstance(candidate, dict) else _MISSING
            if not holds({rest: operand} if rest else operand, inner):
                return False
        return True

    return not of_element or any(map(all_hold, _candidates(value)))


@given(_FILTERS, _DATA)
def test_every_filter_means_what_the_documentation_says(conditions: Any, data: Any) -> None:
    wrapped = {"a": conditions}
    for value in ({"a": data}, {}, [{"a": data}, data]):
        assert matches(wrapped, value) is holds(wrapped, value)


@given(_FILTERS, _FILTERS, _DATA)
def test_logic_obeys_de_morgan_and_not_is_the_opposite(one: Any, other: Any, data: Any) -> None:
    def at(conditions: Any) -> bool:
        return matches({"a": conditions}, {"a": data})

    assert at({"$not": one}) is not at(one)
    assert at({"$not": {"$or": [one, other]}}) is at({"$and": [{"$not": one}, {"$not": other}]})
    assert at({"$not": {"$and": [one, other]}}) is at({"$or": [{"$not": one}, {"$not": other}]})


@given(NUMBERS, NUMBERS)
def test_numbers_are_compared_as_they_were_written(value: str, limit: str) -> None:
    exact, exact_limit = Decimal(value), Decimal(limit)
    for name, compare in {"$eq": eq, "$gt": gt, "$gte": ge, "$lt": lt, "$lte": le}.items():
        [condition, data] = [from_text(text) for text in (f'{{"v":{{"{name}":{limit}}}}}', value)]
        stored = compiled(filter_text(condition))  # the filter goes through its text
        assert stored.text == f'{{"v":{{"{name}":{limit}}}}}'
        assert stored.matches({"v": data}, Steps()) is bool(compare(exact, exact_limit))
    assert matches(from_text(f'{{"v":{{"$in":[{limit}]}}}}'), {"v": from_text(value)}) is (
        exact == exact_limit
    )


@given(st.lists(_SCALARS, min_size=1, max_size=4), _DATA)
def test_in_is_one_equality_of_several(values: list[Any], data: Any) -> None:
    either = {"a": {"$or": [{"$eq": each} for each in values]}}
    assert matches({"a": {"$in": values}}, {"a": data}) is matches(either, {"a": data})
    assert matches({"a": {"$nin": values}}, {"a": data}) is not matches(either, {"a": data})


@given(_FILTERS, _DATA)
def test_path_with_a_dot_is_an_object_in_an_object(conditions: Any, data: Any) -> None:
    for value in ({"a": data}, data):
        dotted, inner = {"a.b": conditions}, {"a": {"b": conditions}}
        assert matches(dotted, value) is matches(inner, value)


# -- time

_WIDE: Any = {"items": [{"a": [n, [n]], "t": "x" * 50} for n in range(4_000)]}
_HEAVY = [
    {"items": {"$or": [{"a": {"$eq": -n}} for n in range(1, 45)]}},
    {"items": [{"a": {"$exist": False}}] * 45},
    {"items": {"a": {"$and": [{"$exist": True}] * 45 + [{"$contains": -1}]}}},
    {"items": {"$not": {"$not": {"$not": {"a": {"$nin": [-1]}, "t": {"$contains": "y"}}}}}},
    {"$or": [{"t": {"$contains": f"y{n}"}} for n in range(45)]},
    {"items": {"$eq": [[[[1]]]]}},
]


@pytest.mark.parametrize("conditions", _HEAVY)
@pytest.mark.parametrize("data", [_WIDE, [_WIDE] * 20, {"t": "x" * 2_000_000}])
def test_no_filter_takes_long_whatever_the_data_are(conditions: Any, data: Any) -> None:
    found, steps = parse_filter(conditions), Steps()

    def evaluate() -> None:
        try:
            found.matches(data, steps)
        except OverLimit:
            assert steps.left < 0

    assert calls_made_by(evaluate) < 1_000_000  # at most 600,000 today


# -- the guide

_GUIDE = (Path(__file__).parents[3] / "docs/guides/filters.md").read_text()
_EXAMPLES = re.findall(r"^\| `(\{.*\})` \| `(.*)` \| `(.*)` \|$", _GUIDE, re.MULTILINE)


@pytest.mark.parametrize(("conditions", "passes", "kept_out"), _EXAMPLES)
def test_example_of_the_guide_is_true(conditions: str, passes: str, kept_out: str) -> None:
    assert matches(from_text(conditions), from_text(passes)) is True
    assert matches(from_text(conditions), from_text(kept_out)) is False


def test_guide_has_examples_all_operators_and_the_limits() -> None:
    assert len(_EXAMPLES) >= 19
    assert [name for name in OPERATORS if f"`{name}`" not in _GUIDE] == []
    for limit in (MAX_BYTES, MAX_STEPS, MAX_CONDITIONS, MAX_DEPTH, MAX_VALUES):
        assert f"{limit:,}" in _GUIDE

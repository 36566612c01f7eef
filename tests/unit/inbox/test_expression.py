"""Key expressions: their keys, and that no evaluation is costly or raises."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookfast.errors import InvalidInput
from hookfast.inbox.expression import (
    FUNCTIONS,
    LIMITS,
    MAX_KEY_LENGTH,
    compile_expression,
)
from hookfast.strict_json.parser import JsonValue, parse
from hookfast.strict_json.text import from_text
from tests.unit.strict_json.numbers_as_text import NUMBERS

PUSH: JsonValue = {
    "ref": "refs/heads/main",
    "after": "6113728f",
    "forced": False,
    "count": 3,
    "ratio": Decimal("0.50"),
    "empty": "",
    "none": None,
    "repository": {"full_name": "acme/storefront", "id": 7},
    "commits": [{"id": "a", "n": 2}, {"id": "b", "n": 1}],
}


def key(text: str, payload: JsonValue = PUSH) -> str | None:
    return compile_expression(text, pointer="/key").key(payload)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("after", "6113728f"),
        ("repository.full_name", "acme/storefront"),
        ("count", "3"),
        ("ratio", "0.5"),
        ("forced", "false"),
        ("[repository.full_name, ref, after]", '["acme/storefront","refs/heads/main","6113728f"]'),
        ("repository", '{"full_name":"acme/storefront","id":7}'),
        ("{b: ref, a: count}", '{"a":3,"b":"refs/heads/main"}'),  # members sorted
        ("commits[*].id", '["a","b"]'),
        ("commits[-1].id", "b"),
        ("commits[?n > `1`].id | [0]", "a"),
        ("join('@', [repository.full_name, after])", "acme/storefront@6113728f"),
        ("missing || after", "6113728f"),
        ("not_null(missing, none, ref)", "refs/heads/main"),
        ("length(commits)", "2"),
        ("'constant'", "constant"),
        # no key
        ("missing", None),
        ("missing.deeper[3]", None),
        ("none", None),
        ("empty", None),
        ("commits[?id == 'z']", None),
        ("`{}`", None),
        # an incomplete key would make different events equal
        ("[repository.full_name, missing]", None),
        ("[repository.full_name, empty]", None),
        ("{a: ref, b: missing}", None),
        # errors of the library
        ("length(count)", None),
        ("ref < count", None),
        ("join('-', commits)", None),
    ],
)
def test_an_expression_returns_a_key_or_none(text: str, expected: str | None) -> None:
    assert key(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.10", "1.1"),
        ("[1e41, -1e-9999]", "[1e41,-1e-9999]"),
        ('[1e2, {"b": 2.50, "a": [1.0]}]', '[100,{"a":[1],"b":2.5}]'),
    ],
)
def test_a_number_has_one_way_to_be_written_in_a_key(text: str, expected: str) -> None:
    assert key("@", parse(text.encode())) == expected


@given(NUMBERS, NUMBERS)
def test_equal_numbers_have_equal_keys_and_others_have_not(first: str, second: str) -> None:
    keys = [key("[v, ref]", parse(b'{"v":%s,"ref":"r"}' % one.encode())) for one in (first, second)]
    assert (keys[0] == keys[1]) == (Decimal(first) == Decimal(second))


def test_elements_that_cannot_be_compared_are_left_out_of_a_key() -> None:
    payload = parse(b'{"items":[{"id":1,"price":12},{"id":2,"price":"n/a"}]}')
    assert key("items[?price > `10`].id", payload) == "[1]"


def test_objects_with_the_same_members_have_the_same_key() -> None:
    assert key("@", {"a": 1, "b": {"y": 1, "x": 2}}) == key("@", {"b": {"x": 2, "y": 1}, "a": 1})


def test_a_long_key_is_replaced_by_its_digest() -> None:
    longest = "x" * MAX_KEY_LENGTH
    assert key("@", longest) == longest
    digest = key("@", longest + "x")
    assert digest is not None
    assert digest.startswith("sha256:")
    assert len(digest) == len("sha256:") + 64
    assert digest != key("@", longest + "y")


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "a.",
        "[a",
        "a b",
        "a..b",
        "$.a",
        "a[",
        "`{`",
        "'a",
        "a" * (LIMITS.length + 1),
        "(" * 300,
        "[" * 150 + "]" * 150,
        "!" * 250 + "a",
        "a." * 100 + "a",  # too many parts
        "a" + "||a" * 20,  # nested as deep as it is long
        "commits[::0]",
        "`1e400`",
        "[ref, `NaN`]",
        "\x00",
    ],
)
def test_an_invalid_expression_is_rejected(text: str) -> None:
    with pytest.raises(InvalidInput) as rejected:
        compile_expression(text, pointer="/key")
    assert rejected.value.code == "invalid_expression"
    assert rejected.value.errors[0].pointer == "/key"


@pytest.mark.parametrize(
    "text",
    [
        "sort_by(commits, &id)",
        "map(&id, commits)",
        "&id",
        "reverse(commits)",
        "merge(@, @)",
        "avg(commits[*].n)",
        "no_such_function(@)",
        "join(ref, commits[*].id)",
        f"join('{'-' * 17}', commits[*].id)",
        "[@,@] | [@,@] | [@,@] | [@,@] | [@,@] | [@,@]",
        "[a,b,c,d,e,f].[a,b,c,d,e,f]",
        "[@,@][] | [@,@][] | [@,@][] | [@,@][] | [@,@][] | [@,@][]",
        "{a:@,b:@}.{a:@,b:@}.{a:@,b:@}.{a:@,b:@}.{a:@,b:@}.{a:@,b:@}",
        "to_string(to_string(to_string(@)))",
        "join('', [])" + "||join('', [])" * 18,
    ],
)
def test_a_costly_expression_is_rejected(text: str) -> None:
    with pytest.raises(InvalidInput):
        compile_expression(text, pointer="/key")


def test_every_listed_function_exists_in_the_library() -> None:
    examples = {
        "contains": "contains(ref, 'main')",
        "ends_with": "ends_with(ref, 'main')",
        "join": "join(',', commits[*].id)",
        "keys": "keys(repository)",
        "length": "length(ref)",
        "max": "max(commits[*].n)",
        "min": "min(commits[*].n)",
        "not_null": "not_null(ref)",
        "sort": "sort(commits[*].id)",
        "starts_with": "starts_with(ref, 'refs')",
        "sum": "sum(commits[*].n)",
        "to_array": "to_array(ref)",
        "to_number": "to_number('3')",
        "to_string": "to_string(commits)",
        "type": "type(ref)",
        "values": "values(repository)",
    }
    assert set(examples) == FUNCTIONS
    for text in examples.values():
        assert key(text) is not None


def test_an_evaluation_that_takes_too_long_has_no_key() -> None:
    rows: JsonValue = [[1]] * 60_000
    assert key("length(@[*][0])", rows[:100]) == "100"  # type: ignore[index]
    assert key("length(@[*][0] | [*] | [*] | [*] | [*] | [*])", rows) is None


def test_a_sum_that_fits_no_double_has_no_key() -> None:
    assert key("sum(@)", parse(b"[1.7e308, 1.7e308]")) is None
    assert key("[sum(@)]", parse(b"[1.7e308, 1.7e308]")) is None


def test_a_payload_of_the_maximum_depth_has_a_key() -> None:
    deep: JsonValue = "x"
    for _ in range(63):
        deep = [deep]
    digest = key("@", deep)
    assert digest == json.dumps(deep)


json_values: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers() | NUMBERS.map(from_text) | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "b", "id", "ref", "commits"]), inner, max_size=4)
    ),
    max_leaves=12,
)
pieces = st.sampled_from(
    [*"abid.[]*|!(),@&{}:<", "||", "&&", "==", "[*]", "[]", "[0]", "[-1]", "[?a]", "[?a==b]"]
    + ["[::2]", "`1`", "`null`", "'x'", '"a"', '`"q"`', "ref", "commits", "join(',',"]
    + [f"{name}(" for name in ("to_string", "length", "sort", "keys", "sum", "max", "not_null")]
)


@given(text=st.lists(pieces, max_size=12).map("".join) | st.text(max_size=30), payload=json_values)
def test_any_expression_is_rejected_or_returns_a_key_or_none(text: str, payload: JsonValue) -> None:
    try:
        expression = compile_expression(text, pointer="/key")
    except InvalidInput:
        return
    found = expression.key(payload)
    assert found is None or 0 < len(found) <= MAX_KEY_LENGTH
    assert found == expression.key(payload)


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "x\udfff" * 200])
def test_a_key_with_characters_that_no_database_stores_is_their_digest(text: str) -> None:
    key = compile_expression("a", pointer="").key
    found = key({"a": text})
    assert found is not None
    assert found.startswith("sha256:")
    assert found != key({"a": f"{text}x"})


def test_text_with_a_replacement_character_is_no_key() -> None:
    """It stands for bytes that were no character, perhaps for others than in another request."""
    keys = [
        compile_expression(text, pointer="").key({"a": "f\ufffdr"}) for text in ("a", "[a]", "@")
    ]
    assert keys == [None] * 3

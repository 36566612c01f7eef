"""JSON laid out for people: nothing of it changes but the white space."""

from __future__ import annotations

import json
import tracemalloc

import pytest

from api.site.json_view import pretty
from hookfast.events.schema_example import example_of


def test_one_member_or_element_on_a_line() -> None:
    text, whole = pretty('{"a":{"b":[1,{"c":null}],"d":"x, {y}: \\"z\\""},"e":[],"f":{}}')
    assert whole
    assert text.splitlines() == [
        "{",
        '  "a": {',
        '    "b": [',
        "      1,",
        "      {",
        '        "c": null',
        "      }",
        "    ],",
        '    "d": "x, {y}: \\"z\\""',
        "  },",
        '  "e": [],',
        '  "f": {}',
        "}",
    ]


@pytest.mark.parametrize(
    "number", ["1.0", "1e3", "12345678901234567890123", "-0.0", "0.10000000000000000000001"]
)
def test_numbers_stay_as_they_were_written(number: str) -> None:
    assert number in pretty(f'{{"n":{number}}}')[0]


@pytest.mark.parametrize("text", ["null", '"a"', "[]", "{}", " [ 1 , 2 ] ", '{"ä":"\\u00e4"}'])
def test_it_means_the_same(text: str) -> None:
    assert json.loads(pretty(text)[0]) == json.loads(text)


def test_of_a_long_one_the_start_is_shown() -> None:
    text, whole = pretty(json.dumps(list(range(10_000))), limit=100)
    assert not whole
    assert len(text) <= 100
    assert text.startswith("[\n  0,\n  1,")


def test_a_deep_one_grows_no_further_than_the_limit() -> None:
    text, whole = pretty("[" * 60 + "1," * 50_000 + "1" + "]" * 60)
    assert not whole
    assert len(text) <= 64 * 1024


@pytest.mark.parametrize("character", ["x", '\\"', "\\\\"])
def test_a_long_string_takes_little_more_memory_than_itself(character: str) -> None:
    text = json.dumps({"a": 0}).replace("0", f'"{character * 1_000_000}"')
    tracemalloc.start()
    try:
        _, whole = pretty(text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert not whole
    assert peak < 10 * len(text)


@pytest.mark.parametrize("text", ["", "no json at all", "{]", '{"a"', '"half', "}}}}"])
def test_text_that_is_not_json_is_shown_as_it_is(text: str) -> None:
    assert isinstance(pretty(text)[0], str)


@pytest.mark.parametrize(
    ("schema", "example"),
    [
        (True, None),
        ({}, None),
        ({"type": "string"}, "text"),
        ({"type": "string", "format": "date"}, "2026-11-20"),
        ({"type": ["null", "integer"], "minimum": 7}, 7),
        ({"enum": ["a", "b"]}, "a"),
        ({"const": 3, "type": "string"}, 3),
        ({"examples": [{"a": 1}], "type": "object"}, {"a": 1}),
        ({"properties": {"a": {"type": "boolean"}, "b": {}}}, {"a": True, "b": None}),
        ({"type": "array", "items": {"type": "number"}}, [1]),
        ({"type": "array"}, []),
        ({"type": {"no": "type"}}, None),
    ],
)
def test_an_example_is_made_up_from_a_schema(schema: object, example: object) -> None:
    assert example_of(schema) == example


def test_a_schema_that_goes_very_deep_ends_somewhere() -> None:
    schema: dict[str, object] = {"type": "string"}
    for _ in range(500):
        schema = {"type": "object", "properties": {"a": schema}}
    assert example_of(schema)

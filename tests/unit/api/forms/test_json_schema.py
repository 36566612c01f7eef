from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from api.forms.json_schema import check_schema
from hookfast.errors import InvalidInput


def _nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"properties": {"a": schema}}
    return schema


_LIST = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"},
        {"$id": "https://example.com/x", "$defs": {"node": _LIST}, "$ref": "#/$defs/node"},
        {"$anchor": "me", "properties": {"child": {"$ref": "#me"}}},
        {"properties": {"$ref": {"type": "string"}, "$id": {"type": "string"}}},
        {"properties": {"pattern": {"const": 1}, "enum": {"type": "string"}}},
        {"const": {"$ref": "https://example.com/"}},
        {"enum": [{"$id": "x", "$ref": 5}]},
        {"pattern": r"^[a-z]+(\.[a-z]+)*$"},
        {"pattern": r"^([a-z0-9]+\.)+[a-z]{2,}$"},
        {"patternProperties": {"^x-": {}}},
        {"pattern": "(a+)+$"},
        {"pattern": r"([/\w .-]*)*/?$"},
        {"pattern": r"^\p{L}+(?<y>\d{4})\cA[^]\u{1F600}(?<!-)$"},
        {
            "$id": "https://example.com/x",
            "$ref": "https://example.com/x#/$defs/a",
            "$defs": {"a": {}},
        },
        {"$defs": {"a": {"$id": "urn:a", "$anchor": "b"}}, "items": {"$ref": "urn:a#b"}},
        {"multipleOf": Decimal("0.01"), "maximum": Decimal("1e400"), "minimum": -(10**400)},
        {"format": "no-such-format"},
        {"x-widget": {"pattern": "(", "$ref": "https://example.com/"}},
        _nested(20),
    ],
    ids=str,
)
def test_valid_schema_is_accepted(schema: Any) -> None:
    check_schema(schema)


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"type": "strin"}, "/schema/type"),
        ({"required": "a"}, "/schema/required"),
        ({"multipleOf": 0}, "/schema/multipleOf"),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, "/schema/$schema"),
        ({"$schema": 5}, "/schema/$schema"),
        ({"$ref": "https://example.com/schema"}, "/schema/$ref"),
        ({"$ref": "other.json"}, "/schema/$ref"),
        ({"items": {"$dynamicRef": "file:///etc/passwd"}}, "/schema/items/$dynamicRef"),
        ({"$ref": "#/$defs/none"}, "/schema/$ref"),
        ({"properties": {"a/b": {"$ref": "#none"}}}, "/schema/properties/a~1b/$ref"),
        ({"items": {"$id": "https://example.com/", "$ref": "#/items"}}, "/schema/items/$ref"),
        ({"$ref": "#"}, "/schema"),
        ({"allOf": [{"anyOf": [{"$ref": "#"}]}]}, "/schema"),
        (
            {"properties": {"default": {"$ref": "https://example.com/"}}},
            "/schema/properties/default/$ref",
        ),
        ({"pattern": "("}, "/schema/pattern"),
        ({"properties": {"a": {"pattern": r"\Z"}}}, "/schema/properties/a/pattern"),
        ({"pattern": "x" * 501}, "/schema/pattern"),
        ({"patternProperties": {"^a/(?i)": {}}}, "/schema/patternProperties/^a~1(?i)"),
        ({"not": {"patternProperties": {"[a": {}}}}, "/schema/not/patternProperties/[a"),
        ({"pattern": "a{99999999999999999999}"}, "/schema/pattern"),
        ({"pattern": "a{999999}"}, "/schema/pattern"),
        ({"$id": "not a uri"}, "/schema/$id"),
        ({"minLength": -1}, "/schema/minLength"),
        ({"$ref": "#/enum", "enum": [1]}, "/schema/$ref"),
        *(
            ({"$ref": "#/x/a~1b", "x": {"a/b": {name: 5}}}, f"/schema/x/a~1b/{name}")
            for name in ("pattern", "required", "dependentRequired", "patternProperties", "$ref")
        ),
        ({"$ref": "#/const", "const": {"pattern": 5}}, "/schema/const/pattern"),
        ({"$ref": "#/x", "x": {"multipleOf": 0}}, "/schema/x/multipleOf"),
        ({"$ref": "#/x", "x": {"$id": "http://["}}, "/schema/x/$id"),
        ({"$ref": "#/x", "x": {"$ref": "http://["}}, "/schema/x/$ref"),
        ({"allOf": [{"$id": "x:a"}, {"$id": "x:a", "type": "null"}]}, "/schema/allOf/1/$id"),
        ({"$anchor": "a", "items": {"$dynamicAnchor": "a"}}, "/schema/items/$dynamicAnchor"),
        ({"title": "x" * 70_000}, "/schema"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_schema_that_cannot_be_applied_is_rejected(schema: Any, pointer: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_schema(schema)
    assert caught.value.code == "invalid_schema"
    assert [error.pointer for error in caught.value.errors] == [pointer]


def test_pattern_that_is_refused_is_named_with_the_reason() -> None:
    with pytest.raises(InvalidInput) as caught:
        check_schema({"pattern": "[[:alpha:]]"})
    assert caught.value.message == (
        "not an ECMA-262 regular expression: a `]` that closes nothing; write `\\]`"
    )


def test_schema_of_another_draft_is_refused_with_what_to_do() -> None:
    with pytest.raises(InvalidInput) as caught:
        check_schema({"$schema": "http://json-schema.org/draft-07/schema#", "items": [{}]})
    [error] = caught.value.errors
    assert error.pointer == "/schema/$schema"
    assert "rewrite" in error.detail

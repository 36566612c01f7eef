"""The OpenAPI document explains itself: every member, parameter and header has a description, and
every operation has examples that fit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from api.openapi.examples import UNKNOWN
from api.openapi.glossary import GLOSSARY
from tests.docs.fenced import DOCS

Json = dict[str, Any]

DOCUMENT: Json = json.loads((DOCS / "openapi.json").read_text())
COMPONENTS: Json = DOCUMENT["components"]
OPERATIONS: dict[str, Json] = {
    operation["operationId"]: operation
    for methods in (DOCUMENT["paths"] | DOCUMENT["webhooks"]).values()
    for operation in methods.values()
}
TOO_GENERAL = {"the id", "the name", "the type", "the status"}


def test_every_member_is_described() -> None:
    schemas = dict(COMPONENTS["schemas"])
    for name, operation in OPERATIONS.items():
        for content in _contents(operation):
            schemas[name] = content.get("schema", {})
    for title, schema in schemas.items():
        for name, member in _members(schema):
            _check(f"{title}.{name}", name, member)


def test_every_parameter_and_header_is_described() -> None:
    for title, operation in OPERATIONS.items():
        for parameter in map(_resolved, operation.get("parameters", ())):
            _check(f"{title} {parameter['in']}", parameter["name"], parameter)
        for response in map(_resolved, operation["responses"].values()):
            for name, header in response.get("headers", {}).items():
                _check(f"{title} header", name, header)


def _check(place: str, name: str, thing: Json) -> None:
    text = thing.get("description", "")
    assert len(text.split()) >= 3, f"{place} has no description: {name}"
    plain = text.lower().strip(".")
    assert plain not in (name.lower(), name.replace("_", " ").lower(), *TOO_GENERAL), place
    assert text[-1] in ".`)", f"{place} does not end as a sentence: {name}"


def test_glossary_has_no_word_that_nothing_needs() -> None:
    used = {
        member["description"]
        for schema in COMPONENTS["schemas"].values()
        for _, member in _members(schema)
    }
    assert set(GLOSSARY.values()) <= used


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS.keys())
def test_every_json_body_has_an_example_that_fits_its_schema(operation: Json) -> None:
    for media_type, content in _bodies(operation):
        if "json" not in media_type:
            continue
        examples = _examples(content)
        assert examples, media_type
        for example in examples:
            assert example is not None
            assert UNKNOWN not in list(_texts(example)), "see api/openapi/example_values.py"
            schema = content.get("schema", {}) | {"components": COMPONENTS}
            faults = list(Draft202012Validator(schema).iter_errors(example))
            assert not faults, [(fault.json_path, fault.message) for fault in faults]


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS.keys())
def test_every_id_in_a_path_has_an_example(operation: Json) -> None:
    for parameter in map(_resolved, operation.get("parameters", ())):
        if parameter["in"] == "path":
            schema = parameter["schema"]
            assert Draft202012Validator(schema).is_valid(parameter["example"])
            assert parameter["example"] != UNKNOWN


def test_examples_of_problems_have_the_status_of_their_response() -> None:
    for operation in OPERATIONS.values():
        for status, described in operation["responses"].items():
            response = _resolved(described)
            content = response.get("content", {}).get("application/problem+json", {})
            for example in _examples(content):
                assert str(example["status"]) == status
                waits = "Retry-After" in response.get("headers", {})
                assert waits == (status in ("429", "503"))


def _resolved(thing: Json) -> Json:
    if "$ref" not in thing:
        return thing
    kind, name = thing["$ref"].removeprefix("#/components/").split("/")
    found: Json = COMPONENTS[kind][name]
    return found


def _examples(content: Json) -> list[Any]:
    named = [each["value"] for each in content.get("examples", {}).values()]
    return [content["example"], *named] if "example" in content else named


def _contents(operation: Json) -> Iterator[Json]:
    for _, content in _bodies(operation):
        yield content


def _bodies(operation: Json) -> Iterator[tuple[str, Json]]:
    """Yield each media type of the operation's request and responses, and its description."""
    bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
    for body in map(_resolved, bodies):
        yield from body.get("content", {}).items()


def _members(schema: Any) -> Iterator[tuple[str, Json]]:
    """Yield the members of a schema's objects, however deep they are, with their descriptions."""
    match schema:
        case {"properties": dict(properties), **rest}:
            yield from properties.items()
            yield from _members(list(properties.values()))
            yield from _members(rest)
        case dict():
            for word, value in schema.items():
                if word not in ("default", "examples", "enum", "const"):
                    yield from _members(value)
        case list():
            for each in schema:
                yield from _members(each)


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            yield from _texts(list(value.values()))
        case list():
            for each in value:
                yield from _texts(each)

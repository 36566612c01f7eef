"""Examples for the OpenAPI document: of each JSON body and each id in a path.

They are built from the values of their members. What the members of a form mean together is an
example of the form itself (`json_schema_extra`), which comes first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from jsonschema_rs import Draft202012Validator

from api.openapi.example_values import EXTENDS, IDS, OPERATIONS, PRESENT, TIME, VALUES

Json = dict[str, Any]

UNKNOWN = "…"
"""The example of a text for which there is no value. A test finds it."""

_ID = re.compile(r"\^(\w+)_\[0-9a-f\]\{32\}\$")


def add_examples(document: Json) -> None:
    """Give each JSON body and each parameter in a path an example, unless it has one."""
    for methods in (*document["paths"].values(), *document["webhooks"].values()):
        for operation in methods.values():
            changes = OPERATIONS.get(operation["operationId"], {})
            samples = Samples(document["components"], changes)
            for content in _json_contents(operation):
                if not content.keys() & {"example", "examples"} and "schema" in content:
                    content |= samples.of_body(content["schema"])
            for parameter in operation.get("parameters", ()):
                if parameter.get("in") == "path":
                    found = samples.sample(parameter["schema"], parameter["name"])
                    parameter.setdefault("example", found)


def _json_contents(operation: Json) -> Iterator[Json]:
    for body in (operation.get("requestBody", {}), *operation["responses"].values()):
        for media_type, content in body.get("content", {}).items():
            if "json" in media_type:
                yield content


class Samples:
    """Creates examples of one operation; `components` are those of the document, and `changes` the
    operation's own values."""

    def __init__(self, components: Json, changes: Mapping[str, Any]) -> None:
        self._components = components
        self._changes = changes

    def of_body(self, schema: Json) -> Json:
        """Return the member of a media type object with its example, or with one for each form that
        the body may have."""
        options = schema.get("oneOf", ())
        if not options:
            return {"example": self.sample(schema)}
        return {
            "examples": {
                option["$ref"].rpartition("/")[2]: {"value": self.sample(option)}
                for option in options
            }
        }

    def sample(self, schema: Json, name: str = "", owner: str = "") -> Any:
        """Return a value that fits the schema of the member `name` of the object `owner`. A member
        that may be null is null, unless there is a value for its name."""
        if schema.get("examples"):
            return schema["examples"][0]
        for value in self._values(name, owner):
            if self._fits(value, schema):
                return value
        if (known := self._id(schema, name, owner)) is not None:
            return known
        if "$ref" in schema:
            title = schema["$ref"].rpartition("/")[2]
            return self.sample(self._components["schemas"][title], name, title)
        if options := schema.get("anyOf") or schema.get("oneOf"):
            absent = {"type": "null"} in options and name and name not in PRESENT
            return None if absent else self.sample(options[0], name, owner)
        for word in ("const", "default"):
            if word in schema:
                return schema[word]
        return schema["enum"][0] if "enum" in schema else self._of_type(schema, name, owner)

    def _values(self, name: str, owner: str) -> Iterator[Any]:
        """Yield the values that the member may have, the most special first."""
        if name in self._changes:
            yield self._changes[name]
        for key in (f"{owner}.{name}", f"{EXTENDS.get(owner)}.{name}", name):
            if key in VALUES:
                yield VALUES[key]

    def _of_type(self, schema: Json, name: str, owner: str) -> Any:
        match schema.get("type"):
            case "string":
                return TIME if schema.get("format") == "date-time" else UNKNOWN
            case "integer" | "number":
                return schema.get("minimum", 0)
            case "boolean":
                return False
            case "array":
                return [self.sample(schema["items"], name, owner)]
            case "object":
                members = schema.get("properties", {})
                return {each: self.sample(one, each, owner) for each, one in members.items()}
        return {}

    def _id(self, schema: Json, name: str, owner: str) -> str | None:
        """Return the id that a member has, or None if it is no id."""
        if found := _ID.fullmatch(schema.get("pattern", "")):
            return next(one for one in IDS.values() if one.startswith(f"{found[1]}_"))
        noun = name.removesuffix("_id")
        if name == "id":
            nouns = [each for each in IDS if each in EXTENDS.get(owner, owner).lower()]
            noun = max(nouns, key=len, default="")
        value = IDS.get(noun) if name in ("id", f"{noun}_id") else None
        return value if value is not None and self._fits(value, schema) else None

    def _fits(self, value: Any, schema: Json) -> bool:
        if "'$ref'" in str(schema):  # most have none, and copying all components takes longest
            schema = schema | {"components": self._components}
        return Draft202012Validator(schema, offline=True).is_valid(value)

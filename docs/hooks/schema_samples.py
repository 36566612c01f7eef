"""Sample values for JSON Schemas of the OpenAPI document, for the examples of the API reference.

A sample is the schema's example or default, if it has one; ids get the right prefix, times are
times. Samples of request bodies have the required members and those with an example.
"""

from __future__ import annotations

import json
import re
from typing import Any

Json = dict[str, Any]

_HEX = "019a0b3c5d6e7f8091a2b3c4d5e6f708"
_TIME = "2026-11-21T09:30:00.000000Z"
_ID = re.compile(r"\^(\w+_)\[0-9a-f\]\{32\}\$")
_PREFIXES = {
    "attempt": "att_",
    "audit": "aud_",
    "delivery": "dlv_",
    "endpoint": "ep_",
    "event": "evt_",
    "inbox": "inb_",
    "job": "job_",
    "key": "key_",
    "source": "src_",
    "subscription": "sub_",
    "tenant": "tnt_",
}
_TYPES = {"string": str, "array": list, "object": dict}
_BY_NAME: dict[str, Any] = {
    "type": "order.invoice.paid",
    "event_type": "order.invoice.paid",
    "data": {"invoice_id": "in_8Tx2", "amount": 129900},
    "url": "https://example.com/webhooks",
    "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "next_cursor": None,
    "name": "Acme",
    "provider": "github",
    "events": ["order.invoice.paid"],
    "schema": {"type": "object", "required": ["invoice_id"]},
}


class Samples:
    """Creates samples; `schemas` are the document's `components/schemas`."""

    def __init__(self, schemas: Json) -> None:
        self._schemas = schemas

    def text(self, schema: Json, *, request: bool = False) -> str:
        """Return the sample as indented JSON."""
        return json.dumps(self.sample(schema, request=request), indent=2, ensure_ascii=False)

    def sample(self, schema: Json, name: str = "", *, request: bool = False, depth: int = 0) -> Any:
        """Return a value that fits the schema of the member `name`. In answers a nullable member is
        null, unless there is a sample for its name."""
        if "$ref" in schema:
            title = schema["$ref"].rpartition("/")[2]
            schema = self._schemas[title]
            name = name if name and schema.get("type") != "object" else title
        if schema.get("examples"):
            return schema["examples"][0]
        if (known := _known(schema, name)) is not None:
            return known
        if "anyOf" in schema:
            options = [one for one in schema["anyOf"] if one.get("type") != "null"]
            if len(options) < len(schema["anyOf"]) and not request:
                return None
            return self.sample(options[0], name, request=request, depth=depth)
        if "oneOf" in schema:
            return self.sample(schema["oneOf"][0], name, request=request, depth=depth)
        for word in ("const", "default"):
            if schema.get(word) is not None:
                return schema[word]
        if "enum" in schema:
            return schema["enum"][0]
        return self._of_type(schema, name, request=request, depth=depth)

    def _of_type(self, schema: Json, name: str, *, request: bool, depth: int) -> Any:
        match schema.get("type"):
            case "string":
                return _text(schema, name)
            case "integer" | "number":
                low = schema.get("minimum", 0)
                return max(low, 1) if schema["type"] == "integer" else max(low, 1.5)
            case "boolean":
                return False
            case "array":
                if depth > 4 or "items" not in schema:
                    return []
                return [self.sample(schema["items"], name.rstrip("s"), depth=depth + 1)]
            case "object":
                return self._object(schema, name, request=request, depth=depth)
        return {}

    def _object(self, schema: Json, title: str, *, request: bool, depth: int) -> Json:
        required = schema.get("required", [])
        return {
            name: self.sample(
                member,
                _id_name(title) if name == "id" else name,
                request=request,
                depth=depth + 1,
            )
            for name, member in schema.get("properties", {}).items()
            if not request or name in required or "examples" in member or name == "tenant_id"
        }


def _known(schema: Json, name: str) -> Any:
    """Return the sample for the member's name, if it has the right type."""
    kinds = [one.get("type") for one in schema.get("anyOf", [schema])]
    if "properties" not in schema and (found := _ID.search(json.dumps(schema))):
        return found[1] + _HEX if "array" not in kinds else None
    if name.endswith("_id") and "string" in kinds:
        return _PREFIXES[name[:-3]] + _HEX if name[:-3] in _PREFIXES else None
    value = _BY_NAME.get(name)
    if value is None or "enum" in schema or "$ref" in json.dumps(schema):
        return None
    expected = [_TYPES.get(kind, object) for kind in kinds if kind != "null"]
    return value if any(isinstance(value, kind) for kind in expected) else None


def _id_name(title: str) -> str:
    """Return the name under which other objects have this object's id: `EventSummaryView` →
    `event_id`."""
    found = [noun for noun in _PREFIXES if noun in title.lower()]
    return f"{max(found, key=len)}_id" if found else "id"


def _text(schema: Json, name: str) -> str:
    if schema.get("format") == "date-time" or name.endswith("_at"):
        return _TIME
    return "…"

"""Sample data of event types: what a test sends, and what pages offer to edit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from hookfast.errors import InvalidInput
from hookfast.events.schema_example import example_of
from hookfast.inbox.samples import sample_data
from hookfast.strict_json.parser import MAX_DEPTH, ParsedJson, parse_with_text
from hookfast.strict_json.text import to_text

Origin = Literal["example", "provider", "schema", "default"]
_DEFAULT: Final = '{"test":true}'


@dataclass(frozen=True, slots=True)
class Sample:
    """Sample data as JSON text, and where it comes from: an example in the schema, a sample request
    of the provider, the keywords of the schema, or nothing but the default."""

    data: str
    origin: Origin


def sample_of(name: str, schema: Any, *, now: datetime) -> Sample:
    """Return sample data of the event type with this name and JSON Schema (None: it has none).
    Generated data (`schema`) need not match the schema."""
    examples = schema.get("examples") if isinstance(schema, dict) else None
    if isinstance(examples, list) and examples:
        return Sample(to_text(examples[0]), "example")
    of_provider = sample_data(name, now=now)
    if of_provider is not None:
        return Sample(of_provider, "provider")
    generated = example_of(schema)
    if generated is not None:
        return Sample(to_text(generated), "schema")
    return Sample(_DEFAULT, "default")


def parse_edited(text: str) -> ParsedJson:
    """Return the data that a person typed, parsed as strictly as a request's body. Raises
    InvalidInput at `/data`."""
    try:
        # one level less than a body, because the data is a member of one
        return parse_with_text(text.encode(), levels=0, max_depth=MAX_DEPTH - 1)
    except InvalidInput as error:
        detail = error.message.replace("the body is", "this is")
        raise InvalidInput.at("/data", detail, code=error.code) from None

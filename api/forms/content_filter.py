"""Validation of the content filter of a subscription, and of example events to try it on."""

from __future__ import annotations

from typing import Any

from hookfast.errors import InvalidInput
from hookfast.events.filter import parse_filter
from hookfast.strict_json import parser
from hookfast.strict_json.parser import JsonValue

MAX_EXAMPLE = 16_384
"""Longest example event in a query parameter, in characters."""


def checked_filter(value: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the filter to store, None if every event passes it. Raises InvalidInput
    (`invalid_filter`)."""
    if not value:
        return None
    parse_filter(value)
    return value


def parse_example(text: str, *, pointer: str) -> JsonValue:
    """Return the data of an example event, parsed as strictly as those of an emitted one. Raises
    InvalidInput at `pointer`."""
    try:
        # one level less than a body, because the data are a member of one
        return parser.parse(text.encode(), max_depth=parser.MAX_DEPTH - 1)
    except InvalidInput as error:
        detail = error.message.replace("the body is", "this is")
        raise InvalidInput.at(pointer, detail, code=error.code) from None

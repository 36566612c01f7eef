"""Validation of what a subscription has: its content filter, also with example events, and its
payload together with its mapping."""

from __future__ import annotations

from typing import Any

from hookfast.deliveries.mapping import LIMITS, check_mapping
from hookfast.errors import InvalidInput
from hookfast.events.filter import parse_filter
from hookfast.resources.subscription import PayloadStyle
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


def check_payload(payload: PayloadStyle, mapping: str | None) -> None:
    """Raise InvalidInput at `/mapping` unless a subscription may have this payload and mapping."""
    if payload != "mapped":
        if mapping is not None:
            raise InvalidInput.at("/mapping", "a mapping needs the payload `mapped`; set that too")
        return
    if mapping is None:
        raise InvalidInput.at(
            "/mapping",
            "the payload `mapped` needs a mapping: a JMESPath expression that makes the body, e.g. "
            f"{LIMITS.example}",
        )
    check_mapping(mapping, pointer="/mapping")

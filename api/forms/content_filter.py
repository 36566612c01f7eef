"""The content filter of a subscription in requests: its description and validation."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from api.http.merge_patch import WHOLE
from hookfast.errors import InvalidInput
from hookfast.events.filter import (
    MAX_BYTES,
    MAX_CONDITIONS,
    MAX_DEPTH,
    MAX_VALUES,
    OPERATORS,
    parse_filter,
)
from hookfast.strict_json import parser
from hookfast.strict_json.parser import JsonValue

MAX_EXAMPLE = 16_384
"""Longest example event in a query parameter, in characters."""

ContentFilter = Annotated[
    dict[str, Any] | None,
    WHOLE,
    Field(
        description="A condition on the event's `data`: only events that match are sent. Paths "
        "begin inside it (`amount`, not `data.amount`). Values must be equal, objects lead to "
        "their members, paths may have dots, and a condition on an array holds if one of its "
        "elements matches. Operators: "
        + ", ".join(f"`{name}`" for name in OPERATORS)
        + f". At most {MAX_BYTES} bytes, {MAX_CONDITIONS} conditions, {MAX_DEPTH} levels, and "
        f"{MAX_VALUES} values of `$in`. `null` and `{{}}` send all events. A PATCH replaces the "
        "whole filter. A change applies to events emitted from then on.",
        examples=[
            {"amount": {"$gte": 10_000}, "customer.country": {"$in": ["DE", "FR"]}},
            {"$or": [{"items": {"sku": "A-1", "quantity": {"$gt": 5}}}, {"express": True}]},
        ],
    ),
]


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

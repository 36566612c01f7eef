"""Types of members that several resources have, with their limits."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from hookfast.mail_address import MAX_ADDRESS, ascii_address
from hookfast.strict_json.text import to_text

MAX_METADATA_BYTES = 8_192

WHOLE: Final = "replaced as a whole"
"""Marks a field, in its `Annotated`, that a merge patch replaces without merging its members."""


class Input(BaseModel):
    """Base of request bodies: types are not converted, and unknown members are rejected."""

    model_config = ConfigDict(extra="forbid", strict=True)


def _email(value: str) -> str:
    ascii_address(value)  # mail can be sent to it; it is kept as it was written
    return value


def _metadata(value: dict[str, Any]) -> dict[str, Any]:
    if len(to_text(value, layout="spaced").encode()) > MAX_METADATA_BYTES:
        raise ValueError(f"must be at most {MAX_METADATA_BYTES} bytes as JSON")
    return value


Name = Annotated[
    str,
    Field(min_length=1, max_length=200, description="A name for people; it need not be unique."),
]
Description = Annotated[
    str, Field(max_length=1_000, description="A note for people, up to 1,000 characters.")
]
Email = Annotated[str, Field(max_length=MAX_ADDRESS), AfterValidator(_email)]
Metadata = Annotated[
    dict[str, Any],
    Field(description="Your own data about it, only kept: a JSON object of at most 8 KiB."),
    AfterValidator(_metadata),
]

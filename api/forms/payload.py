"""The payload styles of subscriptions, and the mapping that makes a `mapped` body."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from hookfast.deliveries.mapping import LIMITS, check_mapping
from hookfast.errors import InvalidInput

PayloadStyle: TypeAlias = Literal["full", "thin", "raw", "mapped"]

MappingText: TypeAlias = Annotated[
    str,
    Field(
        min_length=1,
        max_length=LIMITS.length,
        examples=["{text: join(' ', ['Invoice', data.invoice_id, 'is paid'])}"],
    ),
]


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

"""Validation of a subscription's payload together with its mapping."""

from __future__ import annotations

from hookfast.deliveries.mapping import LIMITS, check_mapping
from hookfast.errors import InvalidInput
from hookfast.resources.subscription import PayloadStyle


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

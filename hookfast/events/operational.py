"""Operational events: what Hookfast tells its operators about itself, as events of its own.

They belong to the system tenant. An operator who wants them creates an endpoint with that
`tenant_id` and subscribes it to `hookfast.**`. What happens to the system tenant's own endpoints
is never reported this way: a failing endpoint would report its own failure, for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from hookfast.errors import InvalidInput

SYSTEM_TENANT: Final = "tnt_00000000000070008000000000000000"
"""Id of the tenant that operational events belong to; it exists from the start."""
RESERVED_NAMESPACE: Final = "hookfast"
"""First part of every operational event's type. Nobody else may register or emit such a type."""


class Kind(StrEnum):
    """The types."""

    CIRCUIT_OPENED = "hookfast.circuit.opened"
    CIRCUIT_CLOSED = "hookfast.circuit.closed"
    ENDPOINT_DISABLED = "hookfast.endpoint.disabled"
    ENDPOINT_ENABLED = "hookfast.endpoint.enabled"
    DELIVERY_DEAD = "hookfast.delivery.dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationalEvent:
    """Something that happened to a tenant's endpoint or delivery. `data` is JSON: ids, times
    (RFC 3339), numbers and sentences."""

    kind: Kind
    tenant_id: str
    data: dict[str, Any]


def is_reserved(event_type: str) -> bool:
    """Whether an event type is one that only Hookfast may register and emit."""
    return event_type.partition(".")[0] == RESERVED_NAMESPACE


def refuse_reserved(event_type: str, *, pointer: str) -> None:
    """Raises InvalidInput (`reserved_event_type`) for one of those."""
    if is_reserved(event_type):
        raise InvalidInput.at(
            pointer,
            f"event types that begin with '{RESERVED_NAMESPACE}.' are Hookfast's own: only it "
            "registers, deletes and emits them; anyone may subscribe",
            code="reserved_event_type",
        )

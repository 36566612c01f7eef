"""Operational events, by which Hookfast notifies its operators of circuits, dead letters and loops.

They belong to the system tenant. To receive them, an operator creates an endpoint with that
`tenant_id` and subscribes it to `hookfast.**`. The system tenant's own endpoints cause none: a
failing endpoint would report its own failure for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from hookfast.errors import InvalidInput

SYSTEM_TENANT: Final = "tnt_00000000000070008000000000000000"
"""Id of the tenant of operational events, which exists from the start."""
RESERVED_NAMESPACE: Final = "hookfast"
"""First part of the types of operational events. Only Hookfast registers and emits them."""


class Kind(StrEnum):
    """The types of operational events."""

    CIRCUIT_OPENED = "hookfast.circuit.opened"
    CIRCUIT_CLOSED = "hookfast.circuit.closed"
    ENDPOINT_DISABLED = "hookfast.endpoint.disabled"
    ENDPOINT_ENABLED = "hookfast.endpoint.enabled"
    DELIVERY_DEAD = "hookfast.delivery.dead"
    LOOP_DETECTED = "hookfast.source.loop_detected"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationalEvent:
    """An event about a tenant's endpoint, delivery or source. `data` is JSON with ids, times (RFC
    3339), numbers and sentences. `hops` are those of the event that caused it, so that reports of a
    loop do not become a loop."""

    kind: Kind
    tenant_id: str
    data: dict[str, Any]
    hops: int = 0


def is_reserved(event_type: str) -> bool:
    """Whether only Hookfast may register and emit this event type."""
    return event_type.partition(".")[0] == RESERVED_NAMESPACE


def reject_reserved(event_type: str, *, pointer: str) -> None:
    """Reject an event type that only Hookfast may register and emit. Raises InvalidInput
    (`reserved_event_type`)."""
    if is_reserved(event_type):
        raise InvalidInput.at(
            pointer,
            f"event types that begin with '{RESERVED_NAMESPACE}.' are reserved: only Hookfast "
            "registers, deletes and emits them; use another name (anyone may subscribe to them)",
            code="reserved_event_type",
        )

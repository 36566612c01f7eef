"""The demo's data: an online school's event types, and endpoints with different behaviours."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

TENANT = "Demo School"

Data = dict[str, Any]


class Behaviour(StrEnum):
    """How the receiver answers at an endpoint."""

    HEALTHY = "answers at once"
    FLAKY = "fails twice first"
    SLOW = "takes 2 s"
    BROKEN = "always answers 500"
    GONE = "answers 410"
    OUTAGES = "down now and then"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoEndpoint:
    """An endpoint of the demo's tenant; its `name` is the path of its URL."""

    name: str
    behaviour: Behaviour
    events: tuple[str, ...]
    retry_plan: str | Mapping[str, Any] = field(
        # short, so that retries happen while people watch
        default_factory=lambda: {"delays_seconds": [2, 4, 8, 15, 30]}
    )
    circuit: Mapping[str, Any] = field(default_factory=dict)


ENDPOINTS = (
    DemoEndpoint(name="ledger", behaviour=Behaviour.HEALTHY, events=("order.**",)),
    DemoEndpoint(name="gradebook", behaviour=Behaviour.FLAKY, events=("classroom.**",)),
    DemoEndpoint(name="warehouse", behaviour=Behaviour.SLOW, events=("order.shipment.*",)),
    DemoEndpoint(
        name="dunning",
        behaviour=Behaviour.BROKEN,
        events=("order.payment.failed",),
        retry_plan={"delays_seconds": [1, 2, 4]},
    ),
    DemoEndpoint(
        name="analytics",
        behaviour=Behaviour.OUTAGES,
        events=("order.invoice.paid", "classroom.**"),
        circuit={
            "failure_threshold": 3,
            "min_span_seconds": 0,
            "probe_delays_seconds": [4, 6, 10, 15],
        },
    ),
    DemoEndpoint(name="old-shop", behaviour=Behaviour.GONE, events=("order.cart.abandoned",)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventType:
    """An event type with its JSON Schema, and a function that generates its data."""

    name: str
    description: str
    schema: Mapping[str, Any]
    generate: Callable[[], Data]


def _object(**properties: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"type": "object", "required": list(properties), "properties": properties}


_TEXT = {"type": "string", "minLength": 1}
_CENTS = {"type": "integer", "minimum": 0}
_CURRENCY = {"type": "string", "enum": ["EUR", "USD", "GBP"]}
_NAMES = ("Ada", "Grace", "Edsger", "Barbara", "Donald", "Radia", "Leslie", "Hedy")
_COURSES = ("Algebra I", "Intro to Logic", "Compilers", "Distributed Systems")


def _id(prefix: str) -> str:
    return f"{prefix}_{secrets.token_hex(4)}"


def _price() -> Data:
    return {"amount": 500 + secrets.randbelow(20_000), "currency": "EUR"}


EVENT_TYPES: Mapping[str, EventType] = {
    event_type.name: event_type
    for event_type in (
        EventType(
            name="order.invoice.paid",
            description="An invoice was paid in full.",
            schema=_object(invoice_id=_TEXT, amount=_CENTS, currency=_CURRENCY),
            generate=lambda: {"invoice_id": _id("in"), **_price()},
        ),
        EventType(
            name="order.shipment.dispatched",
            description="A parcel left the warehouse.",
            schema=_object(order_id=_TEXT, carrier=_TEXT, items={"type": "integer", "minimum": 1}),
            generate=lambda: {
                "order_id": _id("or"),
                "carrier": "DHL",
                "items": 1 + secrets.randbelow(5),
            },
        ),
        EventType(
            name="order.payment.failed",
            description="A card was declined.",
            schema=_object(order_id=_TEXT, amount=_CENTS, currency=_CURRENCY, reason=_TEXT),
            generate=lambda: {"order_id": _id("or"), **_price(), "reason": "card_declined"},
        ),
        EventType(
            name="order.cart.abandoned",
            description="A cart was left with items in it.",
            schema=_object(cart_id=_TEXT, amount=_CENTS, currency=_CURRENCY),
            generate=lambda: {"cart_id": _id("ca"), **_price()},
        ),
        EventType(
            name="classroom.submission.created",
            description="A student handed in their work.",
            schema=_object(submission_id=_TEXT, student=_TEXT, course=_TEXT),
            generate=lambda: {
                "submission_id": _id("sm"),
                "student": secrets.choice(_NAMES),
                "course": secrets.choice(_COURSES),
            },
        ),
    )
}

FIRST_EVENTS = (
    "order.invoice.paid",
    "classroom.submission.created",
    "order.payment.failed",
    "order.cart.abandoned",
    "order.shipment.dispatched",
)
"""The types of the first events, in this order: every behaviour shows within a minute."""

LATER_EVENTS = (
    *("order.invoice.paid",) * 4,
    *("order.shipment.dispatched",) * 2,
    *("classroom.submission.created",) * 2,
)
"""The types of later events, picked at random. None of them fails permanently, because one dead
letter is enough for a demo."""

"""The settings of a subscription, as the API accepts them and pages show them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from hookfast.deliveries.mapping import LIMITS
from hookfast.events.filter import (
    MAX_BYTES,
    MAX_CONDITIONS,
    MAX_DEPTH,
    MAX_VALUES,
    OPERATORS,
)
from hookfast.resources.fields import WHOLE, Input
from hookfast.resources.setting import Dashboard

MAX_PATTERNS = 50
"""The maximum of one subscription: each pattern is one request when the receiver is verified."""

PayloadStyle: TypeAlias = Literal["full", "thin", "raw", "mapped"]

Patterns = Annotated[
    list[str],
    Field(
        max_length=MAX_PATTERNS,
        description="Event types or patterns, e.g. `order.invoice.paid`, `order.*.paid`, "
        "`order.**`, `**`.",
        examples=[["order.invoice.paid", "order.refund.*"]],
    ),
]

MappingText: TypeAlias = Annotated[
    str,
    Field(
        min_length=1,
        max_length=LIMITS.length,
        examples=["{text: join(' ', ['Invoice', data.invoice_id, 'is paid'])}"],
    ),
]

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


class SubscriptionSettings(Input):
    """The settings of a subscription, which can be changed later. Those without words of a site
    have inputs of their own there, because they are checked and previewed together."""

    events: Annotated[Patterns, Field(min_length=1)]
    payload: PayloadStyle = Field(
        "full",
        description="`full` sends the event's data; `thin` its id and the URL to fetch it from; "
        "`raw` the body, content type and headers of the request that a source received, byte for "
        "byte and signed by us, and `full` for all other events; `mapped` what the `mapping` makes "
        "of the event.",
    )
    mapping: MappingText | None = Field(
        None,
        description="Required with the payload `mapped`: a JMESPath expression. It is evaluated on "
        "the `full` body, and its result is sent instead, as JSON. If it fails for an event, "
        "nothing is sent and the delivery becomes a dead letter with the reason `mapping_failed`. "
        "A corrected mapping is used for retries and resends too.",
    )
    filter: ContentFilter = None
    active: bool = Field(
        True, description="If false, events emitted meanwhile are not sent, now or later."
    )
    ordered: Annotated[
        bool,
        Dashboard(
            "Order",
            options={"": "any order", "yes": "in order, one at a time per ordering key"},
            fact="in order",
        ),
    ] = Field(
        False,
        description="Send events with the same `ordering_key` one after the other, each when the "
        "one before it is done. An endpoint that is `ordered` orders all its subscriptions.",
    )

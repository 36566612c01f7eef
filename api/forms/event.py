"""Validation of emitted events, which keeps the exact text of their data."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any

from pydantic import Field, ValidationError

from api.access.authentication import Principal
from api.answers.problems import invalid_members
from api.http.fields import Input, TenantId, TimeInput
from hookfast.deliveries.lane import MAX_ORDERING_KEY, ORDERING_KEY_PATTERN
from hookfast.errors import HookfastError, InvalidInput, TooLarge
from hookfast.events.event_type import MAX_LENGTH, parse_event_type
from hookfast.events.operational import reject_reserved
from hookfast.storage.events.new_events import NewEvent
from hookfast.strict_json.parser import MAX_DEPTH, ParsedJson, parse_object, parse_with_text
from hookfast.telemetry import traceparent

MAX_BATCH = 1_000
MAX_AHEAD = timedelta(days=30)
MAX_KEY = 255
KEY_PATTERN = "^[!-~]+$"  # visible ASCII
MAX_TRACEPARENT = 512  # version 00 has 55 characters; later ones may have more
_BATCH_LEVELS = 3  # the members of the body, the elements of `events`, the members of each event

_IDS = {"tenant_id": "tnt_019a0b3c5d6e7f8091a2b3c4d5e6f708"}
_DATA = {"invoice_id": "in_8Tx2", "amount": 129900, "currency": "EUR"}
EXAMPLES: Mapping[str, Any] = {
    "tenant": {
        "summary": "For one tenant",
        "value": {"type": "order.invoice.paid", **_IDS, "data": _DATA},
    },
    "broadcast": {
        "summary": "For every tenant (a broadcast)",
        "value": {
            "type": "platform.status.changed",
            "data": {"component": "api", "status": "operational"},
        },
    },
    "later": {
        "summary": "Delivered later",
        "value": {
            "type": "order.invoice.due",
            **_IDS,
            "data": _DATA,
            "deliver_at": "2026-11-27T09:00:00+01:00",
        },
    },
}


class EventForm(Input):
    """An event to emit."""

    type: str = Field(
        max_length=MAX_LENGTH, description="A registered event type, e.g. `order.invoice.paid`."
    )
    data: Any = Field(description="Any JSON value. It is delivered exactly as sent, byte for byte.")
    tenant_id: TenantId | None = Field(
        None,
        description="The tenant that the event is for; without it, all tenants (a broadcast). "
        "A tenant's key implies its own tenant.",
    )
    deliver_at: TimeInput | None = Field(
        None,
        description="When to deliver it: at most 30 days ahead. A time in the past means now.",
    )
    ordering_key: (
        Annotated[
            str,
            Field(min_length=1, max_length=MAX_ORDERING_KEY, pattern=ORDERING_KEY_PATTERN),
        ]
        | None
    ) = Field(
        None,
        description="Where deliveries are `ordered`: events with the same key are sent one after "
        "the other, in the order in which they were emitted. Those without a key are one sequence "
        "of their own. Not together with `deliver_at`.",
    )


class BatchEventForm(EventForm):
    """An event of a batch."""

    idempotency_key: (
        Annotated[str, Field(min_length=1, max_length=MAX_KEY, pattern=KEY_PATTERN)] | None
    ) = Field(
        None,
        description="Like `Idempotency-Key` for a single event. Without it, an event of a batch "
        "with that header has the key `<header>:<index>`.",
    )
    traceparent: Annotated[str, Field(max_length=MAX_TRACEPARENT)] | None = Field(
        None,
        description="Like the header `traceparent`, for this event: its deliveries join this trace "
        "and not the request's. An invalid value is ignored.",
    )


def parse_event(raw: bytes, *, caller: Principal, key: str | None, now: datetime) -> NewEvent:
    """Return the event in the body `raw`. Raises InvalidInput, or NotFound for another tenant."""
    return _event(parse_object(raw), EventForm, caller=caller, key=key, now=now)


def parse_batch(
    raw: bytes, *, caller: Principal, key: str | None, max_event_bytes: int, now: datetime
) -> list[NewEvent | HookfastError]:
    """Return each event in the body `raw`, or its error (pointers start at the event). Raises
    InvalidInput if the batch itself is invalid."""
    # two levels more than a single event has: `{"events": [`
    body = parse_with_text(raw, levels=_BATCH_LEVELS, max_depth=MAX_DEPTH + 2).members
    if body is None or body.keys() != {"events"}:
        raise InvalidInput.at("", 'a batch is an object with the one member "events"')
    events = body["events"].elements
    if events is None or not 1 <= len(events) <= MAX_BATCH:
        raise InvalidInput.at("/events", f"must be an array of 1 to {MAX_BATCH} events")
    results: list[NewEvent | HookfastError] = []
    for index, source in enumerate(events):
        try:
            results.append(
                _batch_event(
                    source,
                    caller=caller,
                    key=None if key is None else f"{key}:{index}",
                    max_bytes=max_event_bytes,
                    now=now,
                )
            )
        except HookfastError as error:
            results.append(error)
    return results


def _batch_event(
    source: ParsedJson, *, caller: Principal, key: str | None, max_bytes: int, now: datetime
) -> NewEvent:
    if len(source.text.encode()) > max_bytes:
        raise TooLarge(f"The event is larger than {max_bytes} bytes.")
    if source.members is None:
        raise InvalidInput.at("", "an event is a JSON object")
    return _event(source.members, BatchEventForm, caller=caller, key=key, now=now)


def _event(
    members: Mapping[str, ParsedJson],
    form_class: type[EventForm],
    *,
    caller: Principal,
    key: str | None,
    now: datetime,
) -> NewEvent:
    form = _form(members, form_class)
    parse_event_type(form.type)
    reject_reserved(form.type, pointer="/type")
    if form.deliver_at is not None and form.deliver_at - now > MAX_AHEAD:
        raise InvalidInput.at(
            "/deliver_at", f"must be at most {MAX_AHEAD.days} days ahead", code="too_far_ahead"
        )
    if form.ordering_key is not None and form.deliver_at is not None:
        raise InvalidInput.at(
            "/ordering_key",
            "cannot be combined with `deliver_at`: an event for later would hold up all others "
            "with its key until then; leave one of the two out",
        )
    trace = None
    if isinstance(form, BatchEventForm):
        key = form.idempotency_key or key
        trace = traceparent.parse(form.traceparent or "")
    return NewEvent(
        type=form.type,
        data=members["data"].text,
        value=members["data"].value,
        tenant_id=caller.tenant_for(form.tenant_id),
        deliver_at=form.deliver_at,
        ordering_key=form.ordering_key,
        idempotency_key=key,
        traceparent=trace,
    )


def _form(members: Mapping[str, ParsedJson], form_class: type[EventForm]) -> EventForm:
    values = {name: source.value for name, source in members.items()}
    try:
        return form_class.model_validate(values)
    except ValidationError as error:
        raise invalid_members(error, values) from None

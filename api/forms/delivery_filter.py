"""Filters in bodies: which deliveries to act on. One that says nothing is refused, unless the
caller says that it means everything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import Field, Strict

from api.forms.jobs import JobOptions
from api.http.fields import (
    DeliveryId,
    EndpointId,
    EventId,
    Input,
    SubscriptionId,
    TenantId,
    TimeInput,
)
from hookfast.deliveries.outcome import DeliveryStatus, Reason, parse_reason
from hookfast.errors import InvalidInput
from hookfast.events.event_type import parse_event_type
from hookfast.storage.deliveries.actions import UserAction
from hookfast.storage.deliveries.selection import MAX_IDS, DeliverySelection

_Status = Annotated[DeliveryStatus, Strict(False)]

ACTS_ON: Final[Mapping[UserAction, tuple[DeliveryStatus, ...]]] = {
    "pause": (DeliveryStatus.PENDING, DeliveryStatus.RETRYING, DeliveryStatus.HELD),
    "resume": (DeliveryStatus.PAUSED,),
    "resend": tuple(DeliveryStatus),
    "cancel": tuple(status for status in DeliveryStatus if not status.finished),
}
"""The statuses in which an action makes sense."""
REASONS: Final = f"One of {', '.join(f'`{reason}`' for reason in Reason)}."
"""What the filter `reason` takes."""


class DeadLetterChoiceForm(Input):
    """Which dead letters. Members add up."""

    endpoint_id: EndpointId | None = None
    subscription_id: SubscriptionId | None = None
    event_id: EventId | None = None
    event_type: str | None = Field(None, max_length=200, examples=["order.invoice.paid"])
    tenant_id: TenantId | None = None
    since: TimeInput | None = Field(None, description="Created then or later.")
    until: TimeInput | None = Field(None, description="Created before then.")
    reason: str | None = Field(
        None, max_length=200, description=REASONS, examples=["retries_exhausted"]
    )
    ids: list[DeliveryId] | None = Field(
        None, min_length=1, max_length=MAX_IDS, description="These deliveries, one by one."
    )

    @property
    def is_empty(self) -> bool:
        """Whether it says nothing."""
        return not self.model_dump(exclude_none=True)

    def chosen(self, *statuses: DeliveryStatus) -> DeliverySelection:
        """The deliveries that are meant, in these statuses (none: in any)."""
        given: dict[str, Any] = self.model_dump(exclude={"status", "ids"})
        if self.event_type is not None:
            parse_event_type(self.event_type, pointer="/filter/event_type")
        if self.reason is not None:
            parse_reason(self.reason, pointer="/filter/reason")
        ids = None if self.ids is None else tuple(dict.fromkeys(self.ids))
        return DeliverySelection(**given, ids=ids, statuses=statuses)


class DeliveryChoiceForm(DeadLetterChoiceForm):
    """Which deliveries. Members add up."""

    status: _Status | Annotated[list[_Status], Field(min_length=1, max_length=8)] | None = Field(
        None, description="One status, or several; default: those the action makes sense in."
    )

    def chosen_for(self, action: UserAction) -> DeliverySelection:
        """The deliveries that are meant and that `action` makes sense for. Raises InvalidInput when
        that cannot be any."""
        possible = ACTS_ON[action]
        if self.status is None:
            return self.chosen(*(() if len(possible) == len(DeliveryStatus) else possible))
        named = self.status if isinstance(self.status, list) else [self.status]
        statuses = [status for status in possible if status in named]
        if not statuses:
            raise InvalidInput.at(
                "/filter/status", f"`{action}` acts on deliveries that are {', '.join(possible)}"
            )
        return self.chosen(*statuses)


class ChoiceOptions(JobOptions):
    """What a request for a job that has a filter can say."""

    all: bool = Field(False, description="Has to be true when the filter is empty.")

    def check(self, choice: DeadLetterChoiceForm) -> None:
        """Raises InvalidInput for an empty filter that is not meant: nobody should cancel
        everything because a member was forgotten."""
        if choice.is_empty and not self.all:
            raise InvalidInput.at(
                "/filter",
                'the filter is empty; choose something, or add `"all": true` to mean everything',
                code="empty_filter",
            )

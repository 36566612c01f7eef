"""Filters in request bodies that select deliveries to act on. An empty filter is rejected, unless
the caller confirms that it means all deliveries."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field, Strict

from api.forms.jobs import JobOptions
from api.http.fields import (
    DeliveryId,
    EndpointFilter,
    EventFilter,
    EventTypeFilter,
    Input,
    SubscriptionFilter,
    TenantFilter,
    TimeInput,
)
from hookfast.deliveries.actions import ACTIONS, UserAction
from hookfast.deliveries.answer import ANSWERS, parse_answer
from hookfast.deliveries.outcome import DeliveryStatus, Reason, parse_reason
from hookfast.errors import InvalidInput
from hookfast.events.event_type import parse_event_type
from hookfast.storage.deliveries.selection import MAX_IDS, DeliverySelection

_Status = Annotated[DeliveryStatus, Strict(False)]

REASONS: Final = f"One of {', '.join(f'`{reason}`' for reason in Reason)}."
"""The documentation of the filter `reason`."""
STATUSES: Final = (
    "How far it is: `pending` before the first attempt, `retrying` after a failed one, `held` for "
    "its endpoint, `paused` by a person; at the end `delivered`, `dead` (it can be resent), `gone` "
    "(the receiver answered 410) or `cancelled`."
)
LAST_ANSWER: Final = f"The answer to the newest attempt. {ANSWERS}"
"""The documentation of the filter `answer`."""


class DeadLetterChoiceForm(Input):
    """Selects dead letters that match all members."""

    endpoint_id: EndpointFilter = None
    subscription_id: SubscriptionFilter = None
    event_id: EventFilter = None
    event_type: EventTypeFilter = None
    tenant_id: TenantFilter = None
    since: TimeInput | None = Field(None, description="Created at this time or later.")
    until: TimeInput | None = Field(None, description="Created before this time.")
    reason: str | None = Field(
        None, max_length=200, description=REASONS, examples=["retries_exhausted"]
    )
    answer: str | None = Field(
        None, max_length=20, description=LAST_ANSWER, examples=["503", "5xx", "timeout"]
    )
    ids: list[DeliveryId] | None = Field(
        None, min_length=1, max_length=MAX_IDS, description="Only deliveries with these ids."
    )

    @property
    def is_empty(self) -> bool:
        """Whether no member is given."""
        return not self.model_dump(exclude_none=True)

    def selection(self, *statuses: DeliveryStatus) -> DeliverySelection:
        """Return the selection of deliveries in these statuses (none given: in any status)."""
        given: dict[str, Any] = self.model_dump(exclude={"status", "ids"})
        if self.event_type is not None:
            parse_event_type(self.event_type, pointer="/filter/event_type")
        if self.reason is not None:
            parse_reason(self.reason, pointer="/filter/reason")
        if self.answer is not None:
            parse_answer(self.answer, pointer="/filter/answer")
        ids = None if self.ids is None else tuple(dict.fromkeys(self.ids))
        return DeliverySelection(**given, ids=ids, statuses=statuses)


class DeliveryChoiceForm(DeadLetterChoiceForm):
    """Selects deliveries that match all members."""

    status: _Status | Annotated[list[_Status], Field(min_length=1, max_length=8)] | None = Field(
        None, description="One or more statuses; default: all in which the action has an effect."
    )

    def selection_for(self, action: UserAction) -> DeliverySelection:
        """Return the selection, limited to statuses in which `action` has an effect. Raises
        InvalidInput if none of the statuses is left."""
        possible = ACTIONS[action].acts_on
        if self.status is None:
            return self.selection(*(() if len(possible) == len(DeliveryStatus) else possible))
        named = self.status if isinstance(self.status, list) else [self.status]
        statuses = [status for status in possible if status in named]
        if not statuses:
            raise InvalidInput.at(
                "/filter/status", f"`{action}` acts on deliveries that are {', '.join(possible)}"
            )
        return self.selection(*statuses)


class FilteredJobOptions(JobOptions):
    """Options of a request for a job on the deliveries that match a filter."""

    all: bool = Field(False, description="Must be true if the filter is empty.")

    def check(self, filter: DeadLetterChoiceForm) -> None:
        """Raise InvalidInput if the filter is empty and `all` is not set: a forgotten member should
        not cancel all deliveries."""
        if filter.is_empty and not self.all:
            raise InvalidInput.at(
                "/filter",
                'the filter is empty; add a member, or `"all": true` to select all deliveries',
                code="empty_filter",
            )

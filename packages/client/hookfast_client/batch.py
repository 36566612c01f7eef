"""Batches of events: split into requests that the API accepts, and one result for each event."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NotRequired, TypedDict, cast

from hookfast_client.answer import Response
from hookfast_client.call import Call, checked_key, emit_batch, encode_event
from hookfast_client.errors import ApiError, TooLarge, Unavailable, UnexpectedAnswer

MAX_EVENTS = 1_000
"""Most events of one request, which is the API's limit."""
MAX_BYTES = 4 * 1024 * 1024
"""Most bytes of a request with several events: a quarter of the API's default limit, so that other
callers' events do not wait long. If a Hookfast accepts less, requests are halved until they fit."""


class NewEvent(TypedDict):
    """An event to emit in a batch. The members are the arguments of `events.emit`."""

    type: str
    data: Any
    tenant_id: NotRequired[str | None]
    deliver_at: NotRequired[datetime | str | None]
    ordering_key: NotRequired[str | None]
    idempotency_key: NotRequired[str | None]


class EmittedEvent(TypedDict):
    """A committed event. `deliveries` is the number of its deliveries, one per subscription;
    `replayed`: it was committed earlier, with the same idempotency key."""

    id: str
    type: str
    created_at: str
    deliveries: int
    replayed: bool


@dataclass(frozen=True, slots=True)
class BatchItem:
    """The result of one event: the committed `event`, or the `error` with which it was rejected."""

    event: EmittedEvent | None
    error: ApiError | None


@dataclass(frozen=True, slots=True)
class BatchResult:
    """One item for each event, in the order in which they were given."""

    items: Sequence[BatchItem]

    def __iter__(self) -> Iterator[BatchItem]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    @property
    def accepted(self) -> int:
        """How many events were committed, now or earlier with the same key."""
        return sum(item.error is None for item in self.items)

    @property
    def rejected(self) -> int:
        """How many events were rejected."""
        return len(self.items) - self.accepted

    def raise_for_rejected(self) -> None:
        """Raise the error of the first event that was rejected, if one was."""
        for item in self.items:
            if item.error is not None:
                raise item.error


class Batch:
    """The events of a batch, and the results so far. Raises ValueError for an event that cannot be
    sent, before any of them is."""

    def __init__(self, events: Iterable[NewEvent], *, idempotency_key: str | None) -> None:
        key = uuid.uuid4().hex if idempotency_key is None else idempotency_key
        self._events = [_encoded(event, key, index) for index, event in enumerate(events)]
        self._items: list[BatchItem] = []
        self._max_bytes = MAX_BYTES

    @property
    def result(self) -> BatchResult:
        """The results so far."""
        return BatchResult(tuple(self._items))

    def calls(self) -> Iterator[Call]:
        """Yield the calls that are still to be made. Each has to be followed by `done` or
        `too_large`."""
        while len(self._items) < len(self._events):
            yield emit_batch(self._next())

    def done(self, response: Response) -> None:
        """Add the results of a call. From an event that Hookfast had no time for, which is not the
        first one, they are sent again: with their keys, no event is emitted twice. Raises
        UnexpectedAnswer if there is not one result for each event."""
        found = response.value.get("data")
        if not isinstance(found, list) or len(found) != len(self._next()):
            raise UnexpectedAnswer(
                "Hookfast did not answer with one result for each event.", status=response.status
            )
        for index, result in enumerate(found):
            item = _item(result)
            if index > 0 and isinstance(item.error, Unavailable):
                break
            self._items.append(item)

    def too_large(self, error: TooLarge) -> None:
        """Send less at once; an event that is alone too large is rejected."""
        events = self._next()
        if len(events) == 1:
            self._items.append(BatchItem(None, error))
        else:
            self._max_bytes = sum(map(len, events)) // 2

    def _next(self) -> list[bytes]:
        """Return the events of the next call."""
        first = len(self._items)
        events = [self._events[first]]
        size = len(events[0])
        for event in self._events[first + 1 : first + MAX_EVENTS]:
            size += len(event) + 1
            if size > self._max_bytes:
                break
            events.append(event)
        return events


def _encoded(event: NewEvent, key: str, index: int) -> bytes:
    members = dict(cast("dict[str, Any]", event))
    try:
        event_type, data = members.pop("type"), members.pop("data")
        own = members.pop("idempotency_key", None)
        return encode_event(
            event_type,
            data,
            idempotency_key=checked_key(f"{key}:{index}" if own is None else own),
            **members,
        )
    except KeyError as error:
        raise ValueError(f"event {index} has no {error}") from None
    except TypeError as error:  # a member that no event has
        raise ValueError(f"event {index}: {error}") from None
    except ValueError as error:
        raise ValueError(f"event {index}: {error}") from None


def _item(result: dict[str, Any]) -> BatchItem:
    problem = result.get("problem")
    if problem is None:
        members = {name: value for name, value in result.items() if name != "status"}
        return BatchItem(cast("EmittedEvent", members), None)
    return BatchItem(None, ApiError.from_problem(problem, status=int(result["status"])))

"""Applies the filters of subscriptions to events before these are committed, so that an event that
a filter keeps out costs no delivery.

Nearly all evaluations take microseconds, and run on the event loop. Those that may take longer move
to a thread, and their steps are limited: of each filter, of the filters of each tenant for an
event, and of each request. A filter that exceeds a limit is not applied, so its subscription gets
the event: an event too many does less harm than one too few.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Protocol, TypeAlias

import structlog

from hookfast.errors import InvalidInput, Unavailable
from hookfast.events.filter import MAX_STEPS, OverLimit, Steps, compiled, filter_text
from hookfast.storage.events.fan_out import Subscriber
from hookfast.strict_json.text import from_text
from hookfast.telemetry import instruments

log = structlog.get_logger()

_TENANT_STEPS: Final = 500_000
"""For the filters of one tenant and one event: less than 0.5 s."""
_REQUEST_STEPS: Final = 10_000_000
_GROUP_STEPS: Final = 1_000_000
"""For a group of requests, which wait for each other."""
_GROUP_REQUEST_STEPS: Final = 200_000
"""For each request of a group. A request that needs more is evaluated alone."""
_ON_LOOP: Final = 1_000_000
"""Characters of data times characters of filters that are evaluated on the event loop: at most a
twentieth as many steps, because a value and a condition have several characters each."""

_SLOW: Final = 50 * _ON_LOOP
"""More than this may take longer than a second. Such requests are evaluated one after another."""
_PATIENCE_SECONDS: Final = 10.0
"""A request that waited this long for the others is answered with an error that asks to retry."""


class Data(Protocol):
    """An event's data as JSON text, and the same parsed."""

    @property
    def data(self) -> str: ...
    @property
    def value(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class Example:
    """The data of an event that is not emitted."""

    data: str = field(repr=False)
    value: Any = field(repr=False)


@dataclass
class StoredData:
    """The data of a stored event, read from its body when a filter needs them."""

    body: bytes = field(repr=False)

    @property
    def data(self) -> str:
        """The JSON text of the body, which is little longer than that of the data."""
        return self.body.decode()

    @cached_property
    def value(self) -> Any:
        """The data, parsed."""
        return from_text(self.body)["data"]


Candidate: TypeAlias = tuple[Sequence[Subscriber], Data]
"""An event with the subscribers to its type."""


class Filtering:
    """Applies filters for groups of requests and for single ones. One per process and kind of
    request."""

    def __init__(self) -> None:
        # one at a time, because they share the interpreter and the threads
        self._slow = asyncio.Semaphore(1)

    async def together(
        self, requests: Sequence[Sequence[Candidate]]
    ) -> list[list[Sequence[Subscriber]] | None]:
        """Return, for each event of each request, the subscribers whose filters it passes. None:
        the filters of the request take too long for a group; it has to be evaluated `alone`."""
        work = _work(requests)
        if not work:
            return [[subscribers for subscribers, _ in candidates] for candidates in requests]
        if work <= _ON_LOOP:
            return _evaluate_group(requests)
        return await asyncio.to_thread(_evaluate_group, requests)

    async def alone(self, candidates: Sequence[Candidate]) -> list[Sequence[Subscriber]]:
        """Return, for each event of one request, the subscribers whose filters it passes. Raises
        Unavailable if too many slow requests wait."""
        work = _work([candidates])
        if work <= _ON_LOOP:
            return _evaluate(candidates, Evaluation())
        if work <= _SLOW:
            return await asyncio.to_thread(_evaluate, candidates, Evaluation())
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self._slow.acquire()
        except TimeoutError:
            raise Unavailable(
                "Too many events with slow filters are in progress; send the request again.",
                code="overloaded",
            ) from None
        try:
            return await asyncio.to_thread(_evaluate, candidates, Evaluation())
        finally:
            self._slow.release()


async def passed_events(tried: Mapping[str, Any] | None, events: Sequence[Data]) -> list[bool]:
    """Return for each event whether it passes a filter."""
    if tried is None:
        return [True for _ in events]
    return await asyncio.to_thread(_passed_events, filter_text(tried), events)


def _passed_events(text: str, events: Sequence[Data]) -> list[bool]:
    evaluation = Evaluation()
    return [evaluation.of_event(event).passes(text, tenant_id="") is not False for event in events]


class Evaluation:
    """Evaluates filters for the events of one request, with a limited number of steps. If it is
    `strict`, and a filter needs more of them than are left, it raises OverLimit."""

    def __init__(self, steps: int = _REQUEST_STEPS, *, strict: bool = False) -> None:
        self.left = steps
        self._strict = strict

    @property
    def has_steps_for_event(self) -> bool:
        """Whether enough steps are left for whatever one event may need of a tenant's filters."""
        return self.left >= _TENANT_STEPS

    def of_event(self, event: Data) -> EventEvaluation:
        """Return the evaluation of filters for an event."""
        return EventEvaluation(self, event)

    def run(self, text: str, data: Any, *, most: int) -> tuple[bool | None, int]:
        """Return whether data match a stored filter, and how many steps it took, `most` at most.
        None: it would take more, or this version does not know the filter."""
        steps = Steps(allowed := most if most < self.left else self.left)
        try:
            found = compiled(text).matches(data, steps)
        except OverLimit:
            self.left -= allowed
            if self._strict and allowed < most:
                raise
            return None, allowed
        except InvalidInput:  # stored by a version that has other operators
            return None, 0
        used = allowed - steps.left
        self.left -= used
        return found, used


class EventEvaluation:
    """Evaluates filters for one event, each only once, even if many subscriptions have it."""

    def __init__(self, evaluation: Evaluation, event: Data) -> None:
        self._evaluation = evaluation
        self._event = event
        self._found: dict[str, bool] = {}
        self._left: defaultdict[str, int] = defaultdict(lambda: _TENANT_STEPS)

    def passes(self, text: str | None, *, tenant_id: str) -> bool | None:
        """Whether the event passes a tenant's filter; None if that cannot be found out. Without a
        filter, it does."""
        if text is None:
            return True
        if text in self._found:
            return self._found[text]
        left = self._left[tenant_id]
        found, used = self._evaluation.run(
            text, self._event.value, most=left if left < MAX_STEPS else MAX_STEPS
        )
        self._left[tenant_id] = left - used
        if found is not None:  # another tenant may have more steps left
            self._found[text] = found
        return found


def _evaluate_group(
    requests: Sequence[Sequence[Candidate]],
) -> list[list[Sequence[Subscriber]] | None]:
    found: list[list[Sequence[Subscriber]] | None] = []
    left = _GROUP_STEPS
    for candidates in requests:
        given = min(left, _GROUP_REQUEST_STEPS)
        evaluation = Evaluation(given, strict=True)
        try:
            found.append(_evaluate(candidates, evaluation))
        except OverLimit:
            found.append(None)
        left -= given - evaluation.left
    return found


def _evaluate(
    candidates: Sequence[Candidate], evaluation: Evaluation
) -> list[Sequence[Subscriber]]:
    results: Counter[bool | None] = Counter()
    not_applied: str | None = None
    chosen: list[Sequence[Subscriber]] = []
    for subscribers, event in candidates:
        of_event = evaluation.of_event(event)
        passing: list[Subscriber] = []
        for one in subscribers:
            passes = of_event.passes(one.filter, tenant_id=one.tenant_id)
            if passes is not False:
                passing.append(one)
            if one.filter is not None:
                results[passes] += 1
            if passes is None:
                not_applied = one.subscription_id
        chosen.append(passing)
    for result, count in results.items():
        instruments.FILTERS.add(count, result=_RESULTS[result])
    if not_applied is not None:
        log.warning(
            "Filters could not be applied: their subscriptions get the events unfiltered.",
            count=results[None],
            subscription_id=not_applied,
        )
    return chosen


_RESULTS: Final = {True: "passed", False: "kept_out", None: "not_applied"}


def _work(requests: Sequence[Sequence[Candidate]]) -> int:
    """Return the characters of data times the characters of the filters that apply to them."""
    total = 0
    of_filters: dict[int, int] = {}  # events of one audience share the list of its subscribers
    for candidates in requests:
        for subscribers, event in candidates:
            key = id(subscribers)
            if key not in of_filters:
                of_filters[key] = sum(len(one.filter) for one in subscribers if one.filter)
            total += len(event.data) * of_filters[key]
    return total

"""Checks events against their schemas without delaying other requests.

Nearly all checks take microseconds, and run on the event loop. Longer checks move to a thread, one
request at a time, and their time is limited too: a schema and an event can be crafted to keep a
process busy for hours.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

from hookfast.errors import HookfastError, InvalidInput, Unavailable
from hookfast.events.schema import Budget, OverBudget
from hookfast.storage.events.schemas import Schema

# Seconds of processor time. An ordinary event takes a ten-thousandth of a second.
_ON_LOOP_SECONDS = 0.01
"""For a whole group, on the event loop."""
_GROUP_SECONDS = 0.1
"""For the rest of the group, in a thread. The group's other requests wait for it."""
_QUICK_SECONDS = 0.25
"""For a single request, before it queues with other slow ones."""
EVENT_SECONDS = 1.0
_REQUEST_SECONDS = 5.0
_PATIENCE_SECONDS = 10.0
"""A request that waited this long in that queue is answered with an error that asks to retry."""


class Data(Protocol):
    """An event's parsed data, to which a schema is applied."""

    @property
    def value(self) -> Any: ...


Check: TypeAlias = tuple[Schema, Data]
Fault: TypeAlias = HookfastError | None
"""Why an event is rejected: InvalidInput (`schema_…`), or Unavailable if it was not checked. None:
the event is valid."""


class SchemaChecks:
    """Checks groups of events and single requests. One per process and kind of request."""

    def __init__(self) -> None:
        # one at a time, because they share the interpreter
        self._slow = asyncio.Semaphore(1)

    async def together(
        self, requests: Sequence[Sequence[Check]], *, short: bool
    ) -> list[list[Fault] | None]:
        """Return the faults of a group of requests. None: the request takes too long, and has to be
        checked `alone`. `short`: the group has little data."""
        done: list[list[Fault] | None] = []
        if short:
            budget = Budget(_ON_LOOP_SECONDS)
            for checks in requests:
                try:
                    done.append([_fault(check, budget) for check in checks])
                except OverBudget:
                    break
        rest = requests[len(done) :]
        if rest:
            done += await asyncio.to_thread(_check_group, rest)
        return done

    async def alone(self, checks: Sequence[Check]) -> list[Fault]:
        """Return the faults of one request. An event that takes longer than a second is rejected
        (`schema_too_slow`). Raises Unavailable if too many such requests wait."""
        [faults] = await asyncio.to_thread(_check_group, [checks], seconds=_QUICK_SECONDS)
        if faults is not None:
            return faults
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self._slow.acquire()
        except TimeoutError:
            raise Unavailable(
                "Too many events with slow schema checks are in progress; send the request again.",
                code="overloaded",
            ) from None
        try:
            return await asyncio.to_thread(_check_slowly, checks)
        finally:
            self._slow.release()


def _fault(check: Check, budget: Budget) -> Fault:
    schema, data = check
    try:
        schema.check(data.value, budget)
    except HookfastError as error:
        return error
    return None


def _check_group(
    requests: Sequence[Sequence[Check]], *, seconds: float = _GROUP_SECONDS
) -> list[list[Fault] | None]:
    """Check requests in order, each with an equal share of the time. None: it needs more time."""
    share = seconds / max(len(requests), 1)
    found: list[list[Fault] | None] = []
    for checks in requests:
        budget = Budget(share)
        try:
            found.append([_fault(check, budget) for check in checks])
        except OverBudget:
            found.append(None)
    return found


def _check_slowly(checks: Sequence[Check]) -> list[Fault]:
    """Check one request. If there is no time left for an event, none of those after it is checked
    either, so that the caller sends them again in their order."""
    total = Budget(_REQUEST_SECONDS)
    found: list[Fault] = []
    for check in checks:
        left = 0.0
        try:
            left = total.left()
            found.append(_fault(check, Budget(min(EVENT_SECONDS, left))))
        except OverBudget:
            # with less time than a full share, the events before it may have been slow
            if left < EVENT_SECONDS:
                break
            found.append(_too_slow())
    return found + [_no_time_left() for _ in checks[len(found) :]]


def _no_time_left() -> Unavailable:
    return Unavailable("The events before this one took too long to check; send this one again.")


def _too_slow() -> InvalidInput:
    return InvalidInput.at(
        "/data",
        f"checking this data against the event type's schema takes longer than {EVENT_SECONDS:g} s;"
        " send less data, or simplify the schema (slow checks are most often a `pattern`)",
        code="schema_too_slow",
    )

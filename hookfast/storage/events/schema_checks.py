"""Checks of events against their schemas, which nobody else waits for.

Nearly all take microseconds, and are done where they are asked for. What takes longer moves to a
thread, on its own, and there is an end to that too: a schema and an event can be made so that they
keep a process busy for hours.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

from hookfast.errors import HookfastError, InvalidInput, Unavailable
from hookfast.events.schema import Budget, OverBudget
from hookfast.storage.events.schemas import Schema

# Seconds of processor time. An ordinary event takes a ten-thousandth.
_HERE = 0.01
"""For all of a group together, on the event loop."""
_TOGETHER = 0.1
"""For all the rest of the group, in a thread: the others of the group wait for it."""
_QUICK = 0.25
"""For one request on its own, before it queues with others that take long."""
EVENT_SECONDS = 1.0
_REQUEST_SECONDS = 5.0
_PATIENCE_SECONDS = 10.0
"""After so long in that queue a caller is told to come again."""


class Data(Protocol):
    """What a schema is applied to."""

    @property
    def value(self) -> Any: ...


Check: TypeAlias = tuple[Schema, Data]
Fault: TypeAlias = HookfastError | None
"""Why an event is not taken: InvalidInput (`schema_…`), or Unavailable where it was not looked at;
None for most."""


class SchemaChecks:
    """One per process and kind of request."""

    def __init__(self) -> None:
        # one: what they share is the interpreter
        self._long = asyncio.Semaphore(1)

    async def together(
        self, requests: Sequence[Sequence[Check]], *, short: bool
    ) -> list[list[Fault] | None]:
        """The faults of a group of requests; None for a request that takes so long that it has to
        be checked `alone`. `short`: their data is."""
        done: list[list[Fault] | None] = []
        if short:
            budget = Budget(_HERE)
            for checks in requests:
                try:
                    done.append([_fault(check, budget) for check in checks])
                except OverBudget:
                    break
        rest = requests[len(done) :]
        if rest:
            done += await asyncio.to_thread(_faults_of_each, rest)
        return done

    async def alone(self, checks: Sequence[Check]) -> list[Fault]:
        """The faults of one request. An event that takes longer than a second is refused
        (`schema_too_slow`). Raises Unavailable where too many such requests wait."""
        [faults] = await asyncio.to_thread(_faults_of_each, [checks], seconds=_QUICK)
        if faults is not None:
            return faults
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self._long.acquire()
        except TimeoutError:
            raise Unavailable(
                "Too many events that take long to check are in hand; send it again.",
                code="overloaded",
            ) from None
        try:
            return await asyncio.to_thread(_faults_at_length, checks)
        finally:
            self._long.release()


def _fault(check: Check, budget: Budget) -> Fault:
    schema, data = check
    try:
        schema.check(data.value, budget)
    except HookfastError as error:
        return error
    return None


def _faults_of_each(
    requests: Sequence[Sequence[Check]], *, seconds: float = _TOGETHER
) -> list[list[Fault] | None]:
    """In order; each has an equal share of the time."""
    each = seconds / max(len(requests), 1)
    found: list[list[Fault] | None] = []
    for checks in requests:
        budget = Budget(each)
        try:
            found.append([_fault(check, budget) for check in checks])
        except OverBudget:
            found.append(None)
    return found


def _faults_at_length(checks: Sequence[Check]) -> list[Fault]:
    whole = Budget(_REQUEST_SECONDS)
    found: list[Fault] = []
    for check in checks:
        try:
            left = whole.left()
        except OverBudget:
            left = 0.0
        try:
            found.append(_fault(check, Budget(min(EVENT_SECONDS, left))))
        except OverBudget:
            # with less than others have it may be those before it that were slow
            found.append(_too_slow() if left >= EVENT_SECONDS else _no_time_left())
    return found


def _no_time_left() -> Unavailable:
    return Unavailable("The events before this one took too long to check; send it again.")


def _too_slow() -> InvalidInput:
    return InvalidInput.at(
        "/data",
        f"its event type's schema takes longer than {EVENT_SECONDS:g} s to apply to this data; send"
        " less of it, or make the schema simpler (a `pattern` is what takes long most often)",
        code="schema_too_slow",
    )

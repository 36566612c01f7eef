"""Checks events against their schemas without delaying other requests for long.

Nearly all checks take microseconds, and run on the event loop. One check is bounded by
`hookfast.events.schema` and cannot be interrupted; so the time of groups and requests, which have
many, is looked at after each.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Final, Protocol, TypeAlias

from hookfast.errors import HookfastError, InvalidInput, Unavailable
from hookfast.storage.events.schemas import Schema

_GROUP_SECONDS: Final = 0.1
"""Of processor time for a group of requests, which wait for each other. An ordinary event takes a
ten-thousandth of a second."""
_REQUEST_SECONDS: Final = 5.0
_PATIENCE_SECONDS: Final = 10.0
"""A request that waited this long for the others is answered with an error that asks to retry."""


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
        self._alone = asyncio.Semaphore(1)

    async def together(
        self, requests: Sequence[Sequence[Check]], *, short: bool
    ) -> list[list[Fault] | None]:
        """Return the faults of a group of requests. None: the group has no time for the request,
        which has to be checked `alone`. `short`: the group has little data."""
        if short:
            return _check_group(requests)
        return await asyncio.to_thread(_check_group, requests)

    async def alone(self, checks: Sequence[Check]) -> list[Fault]:
        """Return the faults of one request. If the checks take too long together, the events after
        them get Unavailable. Raises Unavailable if too many requests wait."""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self._alone.acquire()
        except TimeoutError:
            raise Unavailable(
                "Too many events with slow schema checks are in progress; send the request again.",
                code="overloaded",
            ) from None
        try:
            return await asyncio.to_thread(_check_request, checks)
        finally:
            self._alone.release()


def _check_group(requests: Sequence[Sequence[Check]]) -> list[list[Fault] | None]:
    end = time.thread_time() + _GROUP_SECONDS
    return [
        [_fault(check) for check in checks] if time.thread_time() < end else None
        for checks in requests
    ]


def _check_request(checks: Sequence[Check]) -> list[Fault]:
    """Check the events of one request. Without time for one, none of those after it is checked
    either, so that the caller sends them again in their order."""
    end = time.thread_time() + _REQUEST_SECONDS
    return [_fault(check) if time.thread_time() < end else _no_time_left() for check in checks]


def _fault(check: Check) -> Fault:
    schema, data = check
    try:
        schema.check(data.value)
    except InvalidInput as error:
        return error
    return None


def _no_time_left() -> Unavailable:
    return Unavailable("The events before this one took too long to check; send this one again.")

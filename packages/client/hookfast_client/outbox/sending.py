"""Sends claimed rows to Hookfast as batches, and returns the result of each row."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from hookfast_client.errors import ApiError, UnexpectedAnswer
from hookfast_client.outbox.queue import ClaimedRow
from hookfast_client.outbox.table import MAX_DATA_BYTES

Post: TypeAlias = Callable[[Sequence[bytes]], Awaitable[Sequence[Mapping[str, Any]]]]
"""Posts events as a batch, and returns the items of the answer. Raises HookfastError."""

_REJECTS_BATCH = frozenset({400, 413, 422})
_LONGEST_ERROR = 2_000


@dataclass(frozen=True, slots=True)
class Sent:
    """The row is an event. `replayed`: it was one before, and an earlier answer was lost."""

    event_id: str
    replayed: bool


@dataclass(frozen=True, slots=True)
class Rejected:
    """Hookfast would reject the row however often it is sent."""

    code: str
    detail: str

    @property
    def text(self) -> str:
        """Both as one text that PostgreSQL can store."""
        text = f"{self.code}: {self.detail}"[:_LONGEST_ERROR].replace("\0", "")
        return text.encode("utf-8", "replace").decode()


@dataclass(frozen=True, slots=True)
class Postponed:
    """Hookfast cannot take the row now, such as after its tenant's quota is used up."""

    code: str


@dataclass(frozen=True, slots=True)
class Unprocessed:
    """Hookfast had no time for the row, nor for those after it."""

    code: str


_TOO_LARGE = Rejected("too_large", f"The data is larger than {MAX_DATA_BYTES:,} bytes.")

Result: TypeAlias = Sent | Rejected | Postponed | Unprocessed


class BatchRejected(Exception):
    """Hookfast rejected a batch as a whole, because of what is in it. A single row may be the
    cause, such as one with a duplicate member, which some other program has inserted."""


async def send(post: Post, rows: Sequence[ClaimedRow]) -> list[Result]:
    """Send the rows in this order, and return a result for each.

    Raises BatchRejected, except for a single row, and HookfastError if Hookfast took none of them,
    or nobody knows how many.
    """
    events = [row.event for row in rows if row.event is not None]
    results = iter(await _send(post, events) if events else ())
    return [_TOO_LARGE if row.event is None else next(results) for row in rows]


async def _send(post: Post, events: Sequence[bytes]) -> list[Result]:
    try:
        items = await post(events)
    except (ApiError, UnexpectedAnswer) as error:
        if not _rejects_batch(error):
            raise
        if len(events) > 1:
            raise BatchRejected from None
        return [_rejected(error)]
    if len(items) != len(events):
        raise UnexpectedAnswer(
            f"Hookfast answered {len(events)} events with {len(items)} results.", status=202
        )
    return [_result(item) for item in items]


def _rejects_batch(error: ApiError | UnexpectedAnswer) -> bool:
    """Whether the request failed because of what is in it. A proxy may have a limit of its own for
    the size; all its other answers say nothing about the rows."""
    if isinstance(error, ApiError):
        return error.status in _REJECTS_BATCH
    return error.status == 413


def _rejected(error: ApiError | UnexpectedAnswer) -> Rejected:
    if isinstance(error, ApiError):
        return _rejected_for(error)
    return Rejected("too_large", str(error))


def _result(item: Mapping[str, Any]) -> Result:
    status = int(item["status"])
    if status == 202:
        return Sent(str(item["id"]), bool(item.get("replayed", False)))
    error = ApiError.from_problem(item["problem"], status=status)
    if status == 429:
        return Postponed(error.code)
    if status >= 500:
        return Unprocessed(error.code)
    return _rejected_for(error)


def _rejected_for(error: ApiError) -> Rejected:
    places = [f"{one.pointer}: {one.detail}" for one in error.errors if one.detail != error.detail]
    return Rejected(error.code, "; ".join([error.detail, *places]))

"""How the deliveries of a batch have left it, and the batch's result."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from hookfast.deliveries.batch_messages import BatchResult, Unrecorded, summary


class Status(Enum):
    """How a delivery left its batch."""

    DELIVERED = auto()
    CONTINUES = auto()  # its row says so already
    LEAVES_UNSAVED = auto()  # its row has yet to say so
    RETURNED = auto()  # nothing was begun
    UNRECORDED = auto()


@dataclass(frozen=True, slots=True)
class MemberResult:
    """How one delivery left its batch, and `why`, in words for the batch's result."""

    status: Status
    why: str = ""
    unrecorded: Unrecorded | None = None


GIVEN_UP = MemberResult(Status.CONTINUES, "given up")


def with_status(results: dict[str, MemberResult], status: Status) -> list[str]:
    """Return the ids of the deliveries that left with this status."""
    return [delivery_id for delivery_id, result in results.items() if result.status is status]


def result_of(results: dict[str, MemberResult]) -> BatchResult:
    """Return the result of the batch."""
    delivered = with_status(results, Status.DELIVERED)
    returned = with_status(results, Status.RETURNED)
    unrecorded = [one.unrecorded for one in results.values() if one.unrecorded is not None]
    continued = {
        delivery_id: result.why
        for delivery_id, result in results.items()
        if result.status in (Status.CONTINUES, Status.LEAVES_UNSAVED, Status.UNRECORDED)
    }
    line = summary(
        len(results),
        delivered=len(delivered),
        continued=len(continued),
        returned=len(returned),
    )
    return BatchResult(line, delivered, continued, returned, unrecorded)

"""Ordered delivery: the lane that a delivery is in, and its place there.

A lane is a subscription's deliveries with one ordering key. One of them is the head, which alone is
attempted; the others are queued behind it. The head leaves when it ends, and the next one moves up.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

MAX_ORDERING_KEY: Final = 256
"""The most characters of an ordering key."""
ORDERING_KEY_PATTERN: Final = r"^[^\x00-\x1f\x7f-\x9f]+$"
"""Any text without control characters."""
_SEPARATOR: Final = "/"


class Place(StrEnum):
    """Where a delivery is in its lane."""

    QUEUED = "queued"  # waits for those before it; nothing is sent
    HEAD = "head"  # the one of its lane that may be attempted
    LEFT = "left"  # it has ended, and the next one has moved up


class DeadLetterPolicy(StrEnum):
    """What follows a delivery of a lane that ended as a dead letter."""

    CONTINUE = "continue"  # it leaves the lane
    WAIT = "wait"  # it stays the head until someone resends or cancels it


def lane_id(subscription_id: str, ordering_key: str | None) -> str:
    """Return the id of a subscription's lane. Without a key, it is the lane of all events that have
    none."""
    return f"{subscription_id}{_SEPARATOR}{ordering_key or ''}"


def ordering_key_of(lane: str) -> str | None:
    """Return the ordering key of a lane, by its id. None: the lane of events without a key."""
    return lane.partition(_SEPARATOR)[2] or None

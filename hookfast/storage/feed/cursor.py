"""A place in the feed, as it is kept by whoever reads it: opaque text, the same on both databases.

It tells of an event by position and id, or of everything up to a position, and of the time until
when its holder has seen the feed: that says whether retention has overtaken it, and where in
PostgreSQL's partitions to look for what follows.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Self

from hookfast.errors import InvalidInput
from hookfast.ids import first_id_at, time_of

MAX_LENGTH = 120
"""Longest cursor, in characters."""
_FORM = re.compile(r"1\.([0-9]{1,18})\.([0-9]{1,15})\.([0-9a-f]{32})?", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
# Ids are made a moment before their transactions begin, by hosts whose clocks differ. An event that
# becomes visible later than this after its id was made could be missed by whoever reads along.
_LATEST = timedelta(days=1)
_AFTER_EVERY_ID = "~"


@dataclass(frozen=True, slots=True)
class Cursor:
    """Everything up to the event `id` at `position` is seen, or without an id everything at that
    position too. `at` is when that was so, to the millisecond."""

    position: int
    at: datetime
    id: str | None = None

    @classmethod
    def of_event(cls, position: int, event_id: str) -> Self:
        """Where an event stands."""
        return cls(position, time_of(event_id) or _EPOCH, event_id)

    @classmethod
    def parse(cls, text: str, *, pointer: str = "after") -> Self:
        """The cursor whose `str` this is. Raises InvalidInput (`invalid_cursor`)."""
        try:
            padded = text + "=" * (-len(text) % 4)
            match = _FORM.fullmatch(base64.b64decode(padded, b"-_", validate=True).decode("ascii"))
            at = None if match is None else _EPOCH + int(match[2]) * _MILLISECOND
        except (binascii.Error, ValueError, OverflowError):
            match = at = None
        if match is None or at is None:
            raise InvalidInput.at(
                pointer,
                "not a cursor; pass one that this feed gave, unchanged",
                code="invalid_cursor",
            )
        return cls(int(match[1]), at, None if match[3] is None else f"evt_{match[3]}")

    def __str__(self) -> str:
        millis = (self.at - _EPOCH) // _MILLISECOND
        unique = "" if self.id is None else self.id.removeprefix("evt_")
        text = f"1.{self.position}.{millis}.{unique}"
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    @property
    def first_id(self) -> str:
        """The smallest id that an event behind it can have."""
        return first_id_at("evt", max(self.at, _EPOCH + _LATEST) - _LATEST)

    def __lt__(self, other: Cursor) -> bool:
        """Whether the other one lies further on."""
        return not self.covers(other.position, other.id or _AFTER_EVERY_ID)

    def covers(self, position: int, event_id: str) -> bool:
        """Whether an event lies at or before it."""
        return (position, event_id) <= (self.position, self.id or _AFTER_EVERY_ID)


START = Cursor(0, _EPOCH, first_id_at("evt", _EPOCH))
"""Before the first event that is kept, whichever that is."""

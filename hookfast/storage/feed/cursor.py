"""Cursors: places in the feed, as opaque text that its readers keep, the same on both databases.

A cursor has an event's position and id, or only a position, and the time up to which its reader has
seen the feed: the time shows whether retention has overtaken the cursor, and in which of
PostgreSQL's partitions the next events are.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import ClassVar, Self

from hookfast.errors import InvalidInput
from hookfast.ids import Prefix, first_id_at, time_of

MAX_LENGTH = 120
"""The longest cursor, in characters."""
_FORM = re.compile(r"([1a])\.([0-9]{1,18})\.([0-9]{1,15})\.([0-9a-f]{32})?", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
# Ids are created shortly before their transactions begin, by hosts whose clocks differ. A reader
# could miss an event that becomes visible later than this after its id was created.
_MAX_DELAY = timedelta(days=1)
_AFTER_EVERY_ID = "~"


@dataclass(frozen=True, slots=True)
class Cursor:
    """The place after the event `id` at `position`, or without an id after all events at that
    position. `at` is when its reader had seen everything up to it, to the millisecond."""

    position: int
    at: datetime
    id: str | None = None

    prefix: ClassVar[Prefix] = "evt"
    form: ClassVar[str] = "1"

    @classmethod
    def of_event(cls, position: int, event_id: str) -> Self:
        """Return the cursor after an event."""
        return cls(position, time_of(event_id) or _EPOCH, event_id)

    @classmethod
    def parse(cls, text: str, *, pointer: str = "after") -> Self:
        """Parse a cursor's text, as `str` returns it. Raises InvalidInput (`invalid_cursor`)."""
        try:
            padded = text + "=" * (-len(text) % 4)
            match = _FORM.fullmatch(base64.b64decode(padded, b"-_", validate=True).decode("ascii"))
            if match is not None and match[1] != cls.form:
                match = None
            at = None if match is None else _EPOCH + int(match[3]) * _MILLISECOND
        except (binascii.Error, ValueError, OverflowError):
            match = at = None
        if match is None or at is None:
            raise InvalidInput.at(
                pointer,
                "not a cursor; pass one that this feed gave, unchanged",
                code="invalid_cursor",
            )
        return cls(int(match[2]), at, None if match[4] is None else f"{cls.prefix}_{match[4]}")

    def __str__(self) -> str:
        millis = (self.at - _EPOCH) // _MILLISECOND
        unique = "" if self.id is None else self.id.removeprefix(f"{self.prefix}_")
        text = f"{self.form}.{self.position}.{millis}.{unique}"
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    @property
    def first_id(self) -> str:
        """The smallest id that an event after this cursor can have."""
        return first_id_at(self.prefix, max(self.at, _EPOCH + _MAX_DELAY) - _MAX_DELAY)

    def __lt__(self, other: Cursor) -> bool:
        """Whether this cursor is before the other."""
        return not self.covers(other.position, other.id or _AFTER_EVERY_ID)

    def covers(self, position: int, event_id: str) -> bool:
        """Whether an event is at or before this cursor."""
        return (position, event_id) <= (self.position, self.id or _AFTER_EVERY_ID)


@dataclass(frozen=True, slots=True)
class AttemptCursor(Cursor):
    """The place after an attempt, in the order in which attempts were recorded."""

    prefix: ClassVar[Prefix] = "att"
    form: ClassVar[str] = "a"


START = Cursor(0, _EPOCH, first_id_at("evt", _EPOCH))
"""The place before the first event that is kept."""

"""The metric and the log lines of connections that a server closes before their clients do: at most
one line a minute for each reason, however many there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from typing import Final

import structlog

from hookfast.telemetry import instruments

_LINE_SECONDS: Final = 60.0

log = structlog.get_logger()


class Reason(StrEnum):
    """Why a server closed a connection: a label of `hookfast.connections.closed`."""

    FULL = "full"
    MADE_ROOM_STARTING = "made_room_starting"
    MADE_ROOM_IDLE = "made_room_idle"
    SILENT = "silent"
    SLOW_REQUEST = "slow_request"
    UNREAD_ANSWER = "unread_answer"
    NO_MEMORY = "no_memory"
    TOO_MANY_AHEAD = "too_many_ahead"
    LARGE_HEAD = "large_head"
    INVALID = "invalid"


_SENTENCES: Final = {
    Reason.FULL: "Connections were answered with 503: too many are open, and all have a request.",
    Reason.MADE_ROOM_STARTING: "Connections that had not sent a request were closed to make room.",
    Reason.MADE_ROOM_IDLE: "Idle connections were closed to make room for new ones.",
    Reason.SLOW_REQUEST: "Connections were closed: their requests' heads did not arrive in time.",
    Reason.UNREAD_ANSWER: "Connections were closed: their clients do not read their answers.",
    Reason.TOO_MANY_AHEAD: "Connections were closed: they sent too many requests at once.",
    Reason.LARGE_HEAD: "Requests were rejected: their heads are too large.",
    Reason.INVALID: "Requests were rejected: they are not valid HTTP.",
}
"""One without a sentence is not logged: browsers connect in advance, and probes send nothing; and
`hookfast.byte_budget` has logged more about a lack of memory."""


class Closings:
    """Counts and logs the connections that one server closes. `clock` is in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._logged_at: dict[Reason, float] = {}
        self._unlogged: Counter[Reason] = Counter()
        self._newest: dict[Reason, dict[str, str | int]] = {}

    def note(self, reason: Reason, site: str | None, *, limit: int | None = None) -> None:
        """Count a connection of this client's site, closed because of this limit, if any."""
        instruments.CONNECTIONS_CLOSED.add(reason=reason.value)
        if reason in _SENTENCES:
            self._unlogged[reason] += 1
            fields = {"client": site, "limit": limit}
            self._newest[reason] = {name: it for name, it in fields.items() if it is not None}
            self.write_lines()

    def write_lines(self) -> bool:
        """Log the reasons whose last line is a minute old, and return whether others wait."""
        now = self._clock()
        for reason in list(self._unlogged):
            if now - self._logged_at.get(reason, now - _LINE_SECONDS) >= _LINE_SECONDS:
                self._logged_at[reason] = now
                log.warning(
                    _SENTENCES[reason],
                    reason=reason.value,
                    count=self._unlogged.pop(reason),
                    **self._newest.pop(reason),
                )
        return bool(self._unlogged)

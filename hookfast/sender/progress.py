"""The progress of a request, for the message of its deadline and for reading its response.

The whole request runs in one task, so it is a context variable: the code that dials and reads needs
it, and most of what is between it and the sender does not.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field

from hookfast.sender.failure import RequestFailed
from hookfast.sender.http1 import Field
from hookfast.sender.phase import RequestPhase


@dataclass(slots=True)
class Progress:
    """The state of a request. `confirm` is awaited when a connection is open, before the request is
    sent on it; it raises to prevent that. `unanswered`: how the request failed on a reused
    connection, before it was repeated. `sent`: the headers that were sent last. `tokens`: the
    access tokens that were sent. `head`: the status line and headers of the newest answer, as far
    as they have come."""

    phase: RequestPhase = RequestPhase.QUEUED
    confirm: Callable[[], Awaitable[None]] | None = None
    unanswered: RequestFailed | None = None
    sent: list[Field] | None = None
    tokens: list[str] = field(default_factory=list)
    head: bytes | bytearray = b""

    @property
    def accepted(self) -> int | None:
        """The status of the newest answer, if its status line has come and says 2xx. An answer
        with another status is an answer only when it is complete."""
        line = _ACCEPTED.match(self.head)
        return None if line is None else int(line[1])


# RFC 9112, section 4; the server's text is ignored.
_ACCEPTED = re.compile(rb"HTTP/1\.[0-9] (2[0-9]{2})(?:[ \t\r][^\n]*)?\n")

_current: ContextVar[Progress] = ContextVar("progress")


def begin_progress(confirm: Callable[[], Awaitable[None]] | None = None) -> Progress:
    """Return the progress of a new request of this task."""
    progress = Progress(confirm=confirm)
    _current.set(progress)
    return progress


def current_progress() -> Progress:
    """Return the progress of the request that this task is sending."""
    return _current.get()

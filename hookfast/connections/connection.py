"""One connection: its phase, and whether its client takes what is sent to it.

starting ───▶ answering ───▶ sending ───▶ idle ───▶ answering …
    ▲  a head is      an answer is     all of it has  │
    │  complete       complete         left           │
    └───────── a part of a request has arrived ───────┘

refused   a 503 was sent, and the connection is closed once its request has arrived
ended     it was closed, or its client left
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Final

from hookfast.connections.counted_transport import CountedTransport

LEAST_RATE: Final = 4_096
"""Bytes per second that a client has to take of an answer, on average."""


class Phase(Enum):
    """What a connection does; see the module's docstring."""

    REFUSED = auto()
    STARTING = auto()
    ANSWERING = auto()
    SENDING = auto()
    IDLE = auto()
    ENDED = auto()


class Group:
    """Connections with a common limit: all, or those of one site. Each queue is in the order in
    which its connections began to wait. Those with a request in progress are in none."""

    __slots__ = ("idle", "limit", "size", "starting")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0
        self.starting: dict[Connection, None] = {}
        self.idle: dict[Connection, None] = {}

    def longest_waiting(self) -> Connection | None:
        """Return the connection to close for a new one, if there is any."""
        return next(iter(self.starting), None) or next(iter(self.idle), None)


class Connection:
    """A connection and the groups whose limits count it. `clock` is in seconds."""

    __slots__ = (
        "_clock",
        "_enough",
        "_idle_queues",
        "_queues",
        "_starting_queues",
        "_until",
        "groups",
        "heard",
        "phase",
        "since",
        "site",
        "transport",
    )

    def __init__(
        self,
        transport: CountedTransport,
        *,
        site: str | None,
        groups: Sequence[Group],
        clock: Callable[[], float],
    ) -> None:
        self.transport = transport
        self.site = site
        self.groups = groups
        self.phase = Phase.STARTING
        self.since = 0.0
        """When its time to send a request, or to be idle, began."""
        self.heard = False
        """Whether it has sent anything before its first request was complete."""
        self._clock = clock
        self._starting_queues = tuple(group.starting for group in groups)
        self._idle_queues = tuple(group.idle for group in groups)
        self._queues: tuple[dict[Connection, None], ...] = ()
        self._until: float | None = None
        self._enough = 0

    def start(self) -> None:
        """Wait for a request, or the rest of one."""
        self._wait(Phase.STARTING, self._starting_queues)

    def answer(self) -> None:
        """Note that a request is in progress: the connection is not closed for another one."""
        for queue in self._queues:
            del queue[self]
        self._queues = ()
        self.phase = Phase.ANSWERING

    def answered(self) -> None:
        """Note that no request is in progress any more."""
        self._wait(Phase.IDLE, self._idle_queues)

    def end(self) -> None:
        """Note that it was closed."""
        self.answer()
        self.phase = Phase.ENDED

    def is_unread(self, now: float, *, seconds: float) -> bool:
        """Whether its client took too little of what waits for it. In any `seconds`, it has to take
        `LEAST_RATE` on average, or all that waits when they begin. Call this every second or so."""
        unsent = self.transport.unsent()
        if not unsent:
            self._until = None
            return False
        sent = self.transport.written - unsent
        if self._until is None or sent >= self._enough:
            self._until = now + seconds
            self._enough = sent + min(unsent, int(LEAST_RATE * seconds))
            return False
        return now >= self._until

    def _wait(self, phase: Phase, queues: tuple[dict[Connection, None], ...]) -> None:
        self.answer()
        if self.transport.unsent():  # still a part of an answer
            self.phase = Phase.SENDING
            return
        self._queues = queues
        for queue in queues:
            queue[self] = None
        self.phase = phase
        self.since = self._clock()

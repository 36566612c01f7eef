"""The evidence of a storm, for the checks at its end. All times are Unix times of one host."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

DROPPED: Final = 0
"""Used as a status: the receiver closed the connection without an answer."""
LEFT: Final = -1
"""Used as a status: the sender was gone before the answer."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request as received. `sender` is the process id of the worker, `number` the event's."""

    message_id: str
    attempt: int
    path: str
    sender: int
    begun: float
    ended: float
    status: int
    number: int = 0

    @property
    def succeeded(self) -> bool:
        """Whether it was answered with 2xx."""
        return 200 <= self.status < 300


@dataclass(slots=True)
class Fault:
    """One fault of the storm, and how long it lasted. `process` is the process that it hit."""

    kind: str
    begun: float
    ended: float = float("inf")
    process: int | None = None

    def overlaps(self, begun: float, ended: float) -> bool:
        """Whether it overlaps with this period."""
        return self.begun <= ended and begun <= self.ended


@dataclass(frozen=True, slots=True)
class Action:
    """A person's request for an action on a delivery. `status` is None without an answer: then it
    is unknown whether it was committed."""

    delivery_id: str
    action: str
    begun: float
    answered: float
    status: int | None


@dataclass(slots=True)
class Evidence:
    """All evidence of a storm. `accepted`: how many deliveries each accepted event has; `keys`: the
    ordering keys of events that were emitted one after the other, by the event's number."""

    accepted: dict[str, int] = field(default_factory=dict)
    keys: dict[int, str] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    begun: float = field(default_factory=time.time)

    @contextlib.contextmanager
    def fault(self, kind: str, process: int | None = None) -> Iterator[Fault]:
        """Record a fault that lasts as long as the block."""
        fault = Fault(kind, time.time(), process=process)
        self.faults.append(fault)
        try:
            yield fault
        finally:
            fault.ended = time.time()

    def now(self) -> list[str]:
        """Return the kinds of the current faults."""
        return [fault.kind for fault in self.faults if fault.ended == float("inf")]

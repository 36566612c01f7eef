"""The idempotency store remembers messages by key, so that each is processed only once.

Hookfast sends a message again until it gets a 2xx, and your response can get lost. A store knows
which messages are done, and which are in progress:

    match store.begin(key, lease=timedelta(minutes=1)):
        case Fresh() as claim:    # yours: do the work, then finish (or abandon) the claim
        case InProgress():        # another worker has it: answer 503, it will be sent again
        case Done(result):        # it is done: answer 2xx again

A worker that crashes between `begin` and `finish` leaves a claim; when its `lease` expires, the
message is Fresh again. Use a lease longer than the work takes: longer work may be done twice, and
`finish` raises LeaseLost for the slower worker. For an effect that must happen exactly once, write
it in the same database transaction as the record, with `SqlStore.finish_in`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol, TypeAlias


@dataclass(frozen=True, slots=True)
class Fresh:
    """The message is yours. `token` identifies your claim, if another worker takes over."""

    key: str
    token: str


@dataclass(frozen=True, slots=True)
class InProgress:
    """Another worker has the message, and its lease has not expired."""


@dataclass(frozen=True, slots=True)
class Done:
    """The message is done, with this `result`."""

    result: bytes


Begun: TypeAlias = Fresh | InProgress | Done


class IdempotencyStore(Protocol):
    """A store whose calls are atomic, for all threads, processes and machines that share it.

    May block on I/O, and raises the errors of its database or server when that is unavailable.
    """

    def begin(self, key: str, *, lease: timedelta) -> Begun:
        """Claim the message, or return its state: in progress or done."""

    def finish(self, claim: Fresh, result: bytes = b"", *, keep: timedelta) -> None:
        """Remember for `keep` that the message is done. Can be repeated. Raises LeaseLost when
        another worker has taken it over."""

    def abandon(self, claim: Fresh) -> None:
        """Release the message, so that it is Fresh again. Does nothing when the claim is finished,
        or another worker has taken it over."""

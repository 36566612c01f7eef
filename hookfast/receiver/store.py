"""The idempotency store: so that a message that comes again is not worked on again.

Hookfast sends a message again until an answer of 2xx arrives, and your answer can get lost. A store
remembers which messages are done, and which are being worked on, by a key:

    match store.begin(key, lease=timedelta(minutes=1)):
        case Fresh() as claim:    # nobody has it: do the work, then finish (or abandon) the claim
        case InProgress():        # somebody has it: answer 503, it will be sent again
        case Done(result):        # it was done: answer 2xx again

What a crash does: a worker that dies between `begin` and `finish` leaves a claim behind; when its
`lease` runs out the message is Fresh again. So the lease has to be longer than the work takes, and
work that is longer may be done twice: `finish` then raises LeaseLost for the slower one. Whoever
needs the effect exactly once writes it in the same database transaction as the record, with
`SqlStore.finish_in`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol, TypeAlias


@dataclass(frozen=True, slots=True)
class Fresh:
    """The message is yours. `token` tells your claim from one that took over after your lease."""

    key: str
    token: str


@dataclass(frozen=True, slots=True)
class InProgress:
    """Another worker has it, and its lease has not run out."""


@dataclass(frozen=True, slots=True)
class Done:
    """It was done, with this `result`."""

    result: bytes


Begun: TypeAlias = Fresh | InProgress | Done


class IdempotencyStore(Protocol):
    """Each call is atomic, for any number of threads, processes and machines that share the store.

    May block on I/O, and raises what its database or server raises when that is away.
    """

    def begin(self, key: str, *, lease: timedelta) -> Begun:
        """Take the message, or learn who has it or how it ended."""

    def finish(self, claim: Fresh, result: bytes = b"", *, keep: timedelta) -> None:
        """Remember for `keep` that it was done. Safe to call again. Raises LeaseLost when another
        worker has taken it over."""

    def abandon(self, claim: Fresh) -> None:
        """Give it back undone, so that it is Fresh at once. Without effect on a claim that was
        finished, or that another worker has taken over."""

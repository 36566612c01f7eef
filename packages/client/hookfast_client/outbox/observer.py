"""What a relay reports while it runs."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from hookfast_client.outbox.queue import Figures

_log = logging.getLogger("hookfast_client.outbox")


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch whose results are committed: how many rows are events now, how many of those were
    events before (`replayed`), how many Hookfast rejected, and how many have to wait."""

    sent: int
    replayed: int
    rejected: int
    postponed: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedRow:
    """A row that Hookfast rejected for good: its id, idempotency key and type, the problem's code,
    and its detail, which may quote the event."""

    id: int
    key: str
    type: str
    code: str
    detail: str


class Observer:
    """Hears what a relay does. This one writes to Python's log, as `hookfast_client.outbox`; a
    subclass may do something else. None of its methods may raise or block."""

    def started(self, *, table: str) -> None:
        """The relay is connected to the database, for the first time or again."""
        _log.info("The outbox relay is connected to the database; table %s.", table)

    def batch(self, batch: Batch) -> None:
        """The results of a batch are committed."""
        _log.info(
            "A batch was sent: %d sent, %d replayed, %d rejected, %d postponed.",
            *(batch.sent, batch.replayed, batch.rejected, batch.postponed),
        )

    def rejected(self, row: RejectedRow) -> None:
        """Hookfast rejected a row, and that is committed."""
        _log.error("Hookfast rejected row %d (%s): %s.", row.id, row.type, row.code)

    def api_away(self, error: str, *, seconds: float) -> None:
        """Hookfast did not take a batch; the relay tries again after `seconds`."""
        _log.warning("Hookfast took no batch (%s); trying again in %.1f s.", error, seconds)

    def postponed(self, tenant: str, code: str, *, seconds: float) -> None:
        """Hookfast takes no events of this tenant for now; the relay tries again after
        `seconds`."""
        _log.warning(
            "Hookfast takes no events of tenant %s (%s); trying again in %.1f s.",
            *(tenant or "(none)", code, seconds),
        )

    def database_away(self, error: str, *, seconds: float) -> None:
        """The database does not answer; the relay tries again after `seconds`."""
        _log.warning("The database is away (%s); trying again in %.1f s.", error, seconds)

    def figures(self, figures: Figures) -> None:
        """The state of the table was read, every few seconds."""

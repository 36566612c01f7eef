"""How many deliveries wait now, and how many dead letters are kept."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.figures import DEAD, QUEUED, WAITING
from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.storage.counting import gauges
from hookfast.storage.counting.reading import Scope


@dataclass(slots=True)
class Waiting:
    """The deliveries that wait and the dead letters, by status. `queued` of those that wait are
    behind an earlier delivery of their lane; they are counted in their status too."""

    by_status: Counter[DeliveryStatus] = field(default_factory=Counter)
    queued: int = 0

    @property
    def backlog(self) -> int:
        """The number of deliveries that have not ended."""
        return sum(self.by_status[status] for status in WAITING)

    @property
    def dead(self) -> int:
        """The number of dead letters."""
        return sum(self.by_status[status] for status in DEAD)


async def read(connection: AsyncConnection, scope: Scope) -> Waiting:
    """Read the numbers of an endpoint, of a tenant, or of all."""
    found = Waiting()
    for kind, number in await gauges.read(connection, scope):
        if kind == QUEUED:
            found.queued = number
        else:
            found.by_status[DeliveryStatus(kind.partition(":")[0])] += number
    return found

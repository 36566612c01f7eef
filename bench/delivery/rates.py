"""Deliveries per second, and their CPU in each process, in turns with the floor.

A turn is: the floor (64 in flight), batch emits (100 events a request, 2 connections), single emits
(16 connections, each sends after its answer), and one event for 100 endpoints (2 connections; each
of the hundred is a delivery). The length of a round follows from the speed of the one before. A
rate is related to the floor of its own turn, on the same Temporal server, so that changes in the
machine's speed affect both.
"""

from __future__ import annotations

from bench.delivery.figures import BATCHES, FAN_OUT, FLOOR, SINGLES, Rates, Side
from bench.delivery.session import Session


async def measure_rates(session: Session, *, rounds: int, seconds: float) -> Rates:
    """Measure this many turns, with rounds of about this length."""
    sides = {name: Side(name) for name in (FLOOR, BATCHES, SINGLES, FAN_OUT)}
    session.progress.say("rates: warm-up")
    await session.warm_up()
    await session.floor(seconds=seconds)
    for number in range(rounds):
        session.progress.say(f"rates: round {number + 1} of {rounds}")
        for name, side in sides.items():
            if name == FLOOR:
                found = await session.floor(seconds=seconds)
            else:
                found = await session.deliver(name, seconds=seconds)
            side.add(found.count, found.seconds, found.cpu, elsewhere=found.elsewhere)
    return Rates(session.database, session.mode, sides)

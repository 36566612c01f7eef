"""How many deliveries a second, and what one costs each process in CPU, in turns with the floor.

A turn is: the floor (64 in flight), batch emits (100 events a request, 2 connections), single emits
(16 connections, each sends when it has its answer), and one event for 100 endpoints (2 connections;
a delivery is one of the hundred). A round's length follows from how fast the one before was. A rate
is related to the floor of its own turn, on the same Temporal server, so that a machine whose speed
drifts drifts for both.
"""

from __future__ import annotations

from bench.delivery.figures import BATCHES, FAN_OUT, FLOOR, SINGLES, Rates, Side
from bench.delivery.session import Session


async def measure_rates(session: Session, *, rounds: int, seconds: float) -> Rates:
    """So many turns, of rounds that last about so long."""
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

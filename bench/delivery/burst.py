"""Whether deliveries keep up with single events at a rate above the floor: 200 a second.

An open loop, as in `latency`. When the last event was due: how many deliveries had not reached the
sink, and how long before the oldest of them was emitted.
"""

from __future__ import annotations

import asyncio

from bench.delivery.figures import FLOOR, Burst, Quantiles
from bench.delivery.latency import send_singles
from bench.delivery.session import Session

_CALM_SECONDS = 3.0


async def measure_burst(session: Session, *, rate: float, seconds: float) -> Burst:
    """Measure this rate for this long."""
    session.progress.say("burst: the floor")
    await session.warm_up()
    await session.floor(seconds=2)
    session.progress.say(f"burst: {rate:g} a second for {seconds:g} s")
    await asyncio.sleep(_CALM_SECONDS)
    outcome, _ = await send_singles(session, rate=rate, seconds=seconds)
    await session.assert_all_delivered(len(outcome.latencies))
    latencies: list[float] = await session.ask_sink("report")
    arrivals: list[int] = await session.ask_sink("arrivals")
    over = outcome.begun + int((len(outcome.latencies) - 1) / rate * 1e9)
    late = [
        (over - arrival) / 1e6 + latency
        for arrival, latency in zip(arrivals, latencies, strict=True)
        if arrival > over
    ]
    return Burst(
        database=session.database,
        mode=session.mode,
        rate=rate,
        seconds=seconds,
        floor=session.rates[FLOOR],
        accept=Quantiles.of(outcome.latencies),
        arrive=Quantiles.of(latencies),
        waiting=len(late),
        oldest_seconds=max([0.0, *late]) / 1000,
    )

"""Healthy receivers on other people's servers lose no attempt, however they close connections.

Each of 1,000 requests leaves in the worst phase, while the server closes the idle connection: a
server at distance d (one way) that does so after K, with the last answer arriving at R, sends the
end at R + K - d, and the sender sees it at R + K. A request that leaves between R + K - 2d and
R + K meets a closed connection.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from itertools import cycle

import pytest

from hookfast.deliveries.outcome import Result
from hookfast.sender import AddressGuard, Sender
from hookfast.sender.origin import DEFAULT_LIMITS
from tests.integration.sender.conftest import LOOPBACK, post, repeats
from tests.support.foreign.receivers import FOREIGN, Foreign, process_with_port
from tests.support.waiting import PATIENCE

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.alone]

_REQUESTS = 1_000
_MOST_SENDERS = 250
_PER_SECOND = 400  # more would delay each other, and so miss the phase
_LONGEST_PAUSE = 5.0
_IDLE_SECONDS = DEFAULT_LIMITS.idle_seconds
# Timers of the two processes differ by milliseconds, so that not every request meets a near
# server's end.
_SPREAD = (-0.004, -0.003, -0.002, -0.001, -0.0005, 0.0, 0.0005, 0.001)


@pytest.fixture(params=[pytest.param(("asyncio", {"use_uvloop": True}), id="uvloop")])
def anyio_backend(request: pytest.FixtureRequest) -> object:
    return request.param


@pytest.mark.parametrize("distance", [0.0, 0.04], ids=["0ms", "80ms"])
@pytest.mark.parametrize(
    ("foreign", "keep_alive"),
    [
        pytest.param(foreign, keep_alive, id=f"{foreign.name}-{keep_alive or 'default'}")
        for foreign in FOREIGN
        for keep_alive in (None, 0.05, 1, 2, 5)
        if keep_alive is None or keep_alive != foreign.keep_alive
    ],
)
async def test_a_receiver_that_closes_idle_connections_loses_no_attempt(
    foreign: Foreign, keep_alive: float | None, distance: float
) -> None:
    if foreign.missing:  # unlike everything else in the suite it does not come from PyPI
        pytest.skip(f"needs {foreign.needs}: install it")
    closes_after = keep_alive or foreign.keep_alive
    kept = closes_after // 1 - 1 if foreign.announced and closes_after else _IDLE_SECONDS
    pause = closes_after if closes_after and closes_after <= _LONGEST_PAUSE else _IDLE_SECONDS
    before = repeats()
    with foreign.run(keep_alive) as port, _at(distance, port) as reached:
        results = await _results(reached, pause - distance)
    repeated = repeats() - before
    print(f"{foreign.name}, {keep_alive}, {distance}: {results}, {repeated} repeated")
    assert results == {Result.SUCCESS: results.total()}
    if pause != closes_after or pause - distance > kept:
        assert repeated == 0
    elif distance:
        # Each of these would have failed. On a quiet machine it is nearly every request, on a busy
        # one many come too late.
        assert repeated


async def _results(port: int, pause: float) -> Counter[str]:
    """Send requests with pauses of this many seconds, one sender for each connection."""
    count = min(_MOST_SENDERS, int(_PER_SECOND * pause) + 4)
    url = f"http://127.0.0.1:{port}/hook"
    results: Counter[str] = Counter()
    spread = cycle(_SPREAD)

    async def send(sender: Sender, place: int) -> None:
        await asyncio.sleep(pause * place / count)
        await post(sender, url)
        for _ in range(-(-_REQUESTS // count)):
            await asyncio.sleep(pause + next(spread))
            outcome = await post(sender, url, timeout=PATIENCE)
            results[outcome.error or outcome.result] += 1

    async with AsyncExitStack() as stack:
        guard = AddressGuard(LOOPBACK)
        senders = [await stack.enter_async_context(Sender(guard=guard)) for _ in range(count)]
        await asyncio.gather(*(send(sender, place) for place, sender in enumerate(senders)))
    return results


@contextmanager
def _at(distance: float, port: int) -> Iterator[int]:
    """Put the distance, in seconds and one way, before a port of this machine."""
    if not distance:
        yield port
        return
    command = (sys.executable, "-m", "tests.support.distance", str(port), str(distance))
    with process_with_port(*command) as relayed:
        yield relayed

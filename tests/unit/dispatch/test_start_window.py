"""The window limits concurrent starts while Temporal is slow, and admits urgent ones first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack

import pytest

from hookfast.dispatch import start_window
from hookfast.dispatch.start_window import MOST, StartWindow

pytestmark = pytest.mark.anyio

QUICK, SLOW = 0.01, 1.0


class Clock:
    """A monotonic clock that only the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
async def window(clock: Clock) -> StartWindow:
    """A window that has seen how quickly Temporal can answer."""
    window = StartWindow()
    await answered(window, clock, QUICK)
    return window


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(start_window, "time", clock)
    return clock


async def answered(window: StartWindow, clock: Clock, seconds: float, *, times: int = 1) -> None:
    for _ in range(times):
        async with window.turn(3):
            clock.now += seconds


async def test_window_grows_while_answers_are_quick(window: StartWindow, clock: Clock) -> None:
    await answered(window, clock, QUICK, times=2_000)
    assert window.size == MOST


async def test_slow_answers_in_a_row_shrink_the_window_to_one(
    window: StartWindow, clock: Clock
) -> None:
    await answered(window, clock, SLOW, times=20)
    assert window.size == 1


async def test_slow_answers_to_concurrent_starts_halve_the_window_once(
    window: StartWindow, clock: Clock
) -> None:
    before = window.size
    async with AsyncExitStack() as stack:
        for _ in range(before):
            await stack.enter_async_context(window.turn(3))
        clock.now += SLOW
    assert window.size == before // 2


async def test_distant_temporal_does_not_count_as_slow(clock: Clock) -> None:
    window = StartWindow()
    await answered(window, clock, 0.3, times=2_000)
    assert window.size == MOST


async def test_window_recovers_after_slow_answers(window: StartWindow, clock: Clock) -> None:
    await answered(window, clock, SLOW, times=20)
    await answered(window, clock, QUICK, times=100)
    assert window.size > 8


async def failed(window: StartWindow, clock: Clock, seconds: float) -> None:
    async def fail() -> None:
        async with window.turn(3):
            clock.now += seconds
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fail()


async def test_slow_failure_halves_the_window(window: StartWindow, clock: Clock) -> None:
    before = window.size
    await failed(window, clock, SLOW)
    assert window.size == before // 2


async def test_quick_failure_does_not_make_distant_answers_slow(clock: Clock) -> None:
    window = StartWindow()
    for _ in range(100):
        await failed(window, clock, 0.001)
    assert window.size == StartWindow().size
    await answered(window, clock, 0.3, times=2_000)
    assert window.size == MOST


async def test_starts_are_limited_to_the_window_and_admitted_by_urgency(
    window: StartWindow, clock: Clock
) -> None:
    order: list[int] = []
    let_go = asyncio.Event()

    async def start(urgency: int, act: Callable[[], object]) -> None:
        async with window.turn(urgency):
            act()
            await let_go.wait()

    first = [asyncio.create_task(start(3, lambda: None)) for _ in range(window.size)]
    await asyncio.sleep(0)
    later = [
        asyncio.create_task(start(urgency, lambda urgency=urgency: order.append(urgency)))  # type: ignore[misc]
        for urgency in (4, 3, 1, 2, 1)
    ]
    await asyncio.sleep(0)
    assert order == []
    let_go.set()
    await asyncio.gather(*first, *later)
    assert order == [1, 1, 2, 3, 4]


async def test_cancelled_wait_takes_no_place(window: StartWindow, clock: Clock) -> None:
    async with AsyncExitStack() as stack:
        for _ in range(window.size):
            await stack.enter_async_context(window.turn(3))
        impatient = asyncio.create_task(window.turn(1).__aenter__())
        admitted = asyncio.create_task(window.turn(1).__aenter__())
        await asyncio.sleep(0)
        impatient.cancel()
        await asyncio.wait([impatient])
    admitted.cancel()  # at the moment at which it was admitted
    await asyncio.wait([admitted])
    async with AsyncExitStack() as stack, asyncio.timeout(5):
        for _ in range(window.size):
            await stack.enter_async_context(window.turn(3))

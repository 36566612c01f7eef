"""The window limits concurrent starts while Temporal is slow, and admits urgent ones first."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack

import pytest

from hookfast.dispatch import start_window
from hookfast.dispatch.start_window import MOST, StartWindow, Turn

pytestmark = pytest.mark.anyio

QUICK, SLOW, SLOW_STEP = 0.01, 1.0, 2.0


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
        async with a_turn(window):
            clock.now += seconds


_numbers = itertools.count()


def a_turn(window: StartWindow, urgency: int = 3) -> AbstractAsyncContextManager[Turn]:
    return window.turn(urgency, f"dlv_{next(_numbers)}")


async def stepped(window: StartWindow, clock: Clock, seconds: float) -> None:
    """A start whose first step begins here, this long after Temporal's answer."""
    async with window.turn(3, "dlv_stepped") as turn:
        clock.now += QUICK
        first_step = asyncio.create_task(turn.first_step())
        await asyncio.sleep(0)
        clock.now += seconds
        window.step_begins("dlv_stepped")
        await first_step


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
            await stack.enter_async_context(a_turn(window))
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


async def test_late_first_steps_shrink_the_window(window: StartWindow, clock: Clock) -> None:
    before = window.size
    await stepped(window, clock, SLOW_STEP)
    assert window.size == before // 2


async def test_first_step_of_a_busy_worker_is_not_slow(window: StartWindow, clock: Clock) -> None:
    before = window.size
    for _ in range(100):
        await stepped(window, clock, SLOW / 2)
    assert window.size > before


async def test_start_keeps_its_place_until_its_first_step(
    window: StartWindow, clock: Clock
) -> None:
    async with AsyncExitStack() as stack:
        for _ in range(window.size - 1):
            await stack.enter_async_context(a_turn(window))

        async def start() -> None:
            async with window.turn(3, "dlv_1") as turn:
                await turn.first_step()

        first = asyncio.create_task(start())
        second = asyncio.create_task(answered(window, clock, QUICK))
        await asyncio.sleep(0.01)
        assert not second.done()
        window.step_begins("dlv_other")  # of another process, or a repeated one
        window.step_begins("dlv_1")
        async with asyncio.timeout(5):
            await asyncio.gather(first, second)


async def test_nothing_waits_for_a_first_step_once_the_window_is_closed(
    window: StartWindow,
) -> None:
    async with asyncio.timeout(5), window.turn(3, "dlv_1") as turn:
        window.close()
        await turn.first_step()


async def failed(window: StartWindow, clock: Clock, seconds: float) -> None:
    async def fail() -> None:
        async with a_turn(window):
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
        async with a_turn(window, urgency):
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
            await stack.enter_async_context(a_turn(window))
        impatient = asyncio.create_task(a_turn(window, 1).__aenter__())
        admitted = asyncio.create_task(a_turn(window, 1).__aenter__())
        await asyncio.sleep(0)
        impatient.cancel()
        await asyncio.wait([impatient])
    admitted.cancel()  # at the moment at which it was admitted
    await asyncio.wait([admitted])
    async with AsyncExitStack() as stack, asyncio.timeout(5):
        for _ in range(window.size):
            await stack.enter_async_context(a_turn(window))

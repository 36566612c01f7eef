"""The window limits concurrent starts while Temporal is slow, and admits urgent ones first."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from datetime import timedelta

import pytest

from hookfast.dispatch import start_window
from hookfast.dispatch.start_window import MOST, StartWindow

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


def a_turn(window: StartWindow, urgency: int = 3) -> AbstractAsyncContextManager[None]:
    return window.turn(urgency, f"dlv_{next(_numbers)}")


async def started(window: StartWindow, delivery_id: str) -> None:
    """A start whose first step is to begin in this process."""
    async with window.turn(3, delivery_id):
        window.expect_step(delivery_id)


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


async def test_first_steps_that_begin_late_let_half_as_many_be_started(
    window: StartWindow, clock: Clock
) -> None:
    for number in range(8):
        await started(window, f"dlv_{number}")
    clock.now += SLOW_STEP
    for number in range(8):  # they were started together, so this halves it once
        window.step_begins(f"dlv_{number}")
    assert window.size == 4
    for number in range(4):
        await started(window, f"dlv_{number}")

    later = asyncio.create_task(started(window, "dlv_later"))
    await asyncio.sleep(0.01)
    assert not later.done()
    window.step_begins("dlv_other")  # of another process, or a repeated one
    await asyncio.sleep(0.01)
    assert not later.done()
    window.step_begins("dlv_0")
    async with asyncio.timeout(5):
        await later


async def test_steps_are_limited_less_when_they_begin_soon_again(
    window: StartWindow, clock: Clock
) -> None:
    await started(window, "dlv_1")
    clock.now += SLOW_STEP
    window.step_begins("dlv_1")
    assert window.size == 1
    for _ in range(100):
        await started(window, "dlv_1")
        clock.now += QUICK
        window.step_begins("dlv_1")
    assert window.size > 8


async def test_step_that_begins_before_temporal_answers_is_not_waited_for(
    window: StartWindow, clock: Clock
) -> None:
    async with window.turn(3, "dlv_1"):
        window.step_begins("dlv_1")
        window.expect_step("dlv_1")
    assert not window._unbegun


async def test_step_that_never_begins_is_waited_for_as_long_as_its_task_lasts(
    window: StartWindow, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start_window, "WORKFLOW_TASK", timedelta(seconds=0.02))
    await started(window, "dlv_1")
    clock.now += 10
    async with asyncio.timeout(5):
        while window._unbegun:  # noqa: ASYNC110 - a timer ends it
            await asyncio.sleep(0.01)
    assert window.size == 1


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

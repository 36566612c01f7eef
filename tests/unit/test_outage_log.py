"""The lines that a process logs while a dependency is away."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from hookfast.outage_log import REMIND_SECONDS, OutageLog
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

AWAY = "Temporal is away: deliveries wait."
STILL = "Temporal is still away: deliveries wait."
BACK = "Temporal is back."


class Watched:
    """A dependency with a clock that the test sets, and the lines it logged."""

    def __init__(self, lines: list[Any]) -> None:
        self.now = 1_000.0
        self.lines = lines
        self.dependency = OutageLog(
            "Temporal", consequence="deliveries wait", clock=lambda: self.now
        )

    def at(self, second: float, failure: str | None) -> list[str]:
        """Observe this at this second; return the sentences logged for it."""
        before = len(self.lines)
        self.now = 1_000.0 + second
        self.dependency.observe(failure)
        return [line["event"] for line in self.lines[before:]]


@pytest.fixture
def watched() -> Iterator[Watched]:
    with capture_logs() as lines:
        yield Watched(lines)


def test_outage_has_a_line_when_it_begins_one_a_minute_and_one_when_it_ends(
    watched: Watched,
) -> None:
    assert watched.at(0, None) == []
    assert watched.at(5, "refused") == [AWAY]
    lines = [line for second in range(7, 130, 2) for line in watched.at(second, "refused")]
    assert lines == [STILL, STILL]
    assert watched.at(131, None) == [BACK]
    assert watched.at(136, None) == []

    first, _, second, back = watched.lines
    assert (first["away_seconds"], first["error"]) == (0, "refused")
    assert second["away_seconds"] == 120
    assert back["away_seconds"] == 126
    assert {line["dependency"] for line in watched.lines} == {"temporal"}


def test_dependency_that_comes_and_goes_has_few_lines_a_minute(watched: Watched) -> None:
    sentences = [
        line
        for second in range(0, 300, 2)
        for line in watched.at(second, "refused" if second % 4 == 0 else None)
    ]
    assert sentences == [AWAY, BACK] * 5
    # 15 outages a minute; the first of all was alone in its line
    assert [line["interruptions"] for line in watched.lines] == [1, 1, *[15, 15] * 4]


def test_short_outages_that_had_no_line_are_reported_afterwards(watched: Watched) -> None:
    assert watched.at(0, "refused") == [AWAY]
    assert watched.at(2, None) == [BACK]
    assert watched.at(4, "refused") == []
    assert watched.at(6, None) == []
    assert watched.at(61, None) == [BACK]
    assert watched.lines[-1]["interruptions"] == 1


def test_each_reason_has_its_line_at_once(watched: Watched) -> None:
    assert watched.at(0, "a session was ended") == [AWAY]
    assert watched.at(2, "full") == [STILL]
    assert watched.at(4, "a session was ended") == []
    assert watched.at(6, None) == [BACK]
    assert watched.at(8, "full") == watched.at(10, None) == []
    assert watched.at(12, "refused") == [AWAY]
    assert watched.at(14, None) == [BACK]
    assert [line.get("error") for line in watched.lines] == [
        *("a session was ended", "full", None),
        *("refused", None),
    ]


@pytest.mark.parametrize("reasons", [("refused",), ("refused", "full")])
@pytest.mark.parametrize("seed", range(5))
def test_no_minute_has_more_than_three_lines_for_each_reason_however_it_fails(
    watched: Watched, seed: int, reasons: tuple[str, ...]
) -> None:
    chance = random.Random(seed)
    logged: list[float] = []
    second = 0.0
    for _ in range(3_000):
        second += chance.choice((0.5, 2, 5, 20))
        logged += [second] * len(watched.at(second, chance.choice((None, *reasons))))
    for start in logged:
        assert sum(start <= one < start + REMIND_SECONDS for one in logged) <= 3 * len(reasons)


@pytest.mark.parametrize("seed", range(5))
def test_reasons_that_never_repeat_have_few_lines_too(watched: Watched, seed: int) -> None:
    chance = random.Random(seed)
    logged: list[float] = []
    for second in range(3_000):
        failure = chance.choice((None, f"refused after {second} seconds"))
        logged += [second] * len(watched.at(second, failure))
    for start in logged:
        assert sum(start <= one < start + REMIND_SECONDS for one in logged) <= 3 * 3


async def until(condition: Callable[[], bool]) -> None:
    async def holds() -> bool:
        return condition()

    await eventually(holds)


def sentences(lines: list[Mapping[str, Any]]) -> list[str]:
    return [line["event"] for line in lines]


async def test_failures_are_only_counted_while_the_dependency_is_away(watched: Watched) -> None:
    async def check() -> str | None:
        return "refused"

    async with watched.dependency.watched(check):
        await until(lambda: sentences(watched.lines) == [AWAY])
        for _ in range(1_000):
            watched.dependency.failed("The relay waits.", error="RPCError")
        watched.now += 60
        await until(lambda: len(watched.lines) == 2)
    assert sentences(watched.lines) == [AWAY, STILL]
    assert watched.lines[1]["failed_requests"] == 1_000


async def test_failures_are_logged_once_a_minute_if_the_dependency_answers(
    watched: Watched,
) -> None:
    checks = 0

    async def check() -> str | None:
        nonlocal checks
        checks += 1
        return None

    async with watched.dependency.watched(check):
        await until(lambda: checks == 1)
        for _ in range(20):
            watched.dependency.failed("The relay waits.", error="limit")
        # it is checked at once, not after the usual pause
        await until(lambda: sentences(watched.lines) == ["The relay waits."])
        watched.dependency.failed("The relay waits.", error="limit")
        seen = checks
        await until(lambda: checks > seen)
        assert len(watched.lines) == 1
        watched.now += 60
        # from another thread, as the lines of the SDK come
        thread = threading.Thread(target=watched.dependency.failed, args=("The relay waits.",))
        thread.start()
        thread.join()
        await until(lambda: len(watched.lines) == 2)
    assert [line["count"] for line in watched.lines] == [20, 2]


async def test_failure_in_a_process_without_a_watch_is_logged_at_once(watched: Watched) -> None:
    watched.dependency.failed("The relay waits.", error="RPCError")
    assert sentences(watched.lines) == ["The relay waits."]

"""Connections and their phases, with transports that only say how much is unsent."""

from __future__ import annotations

import random
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from hookfast.connections.closings import Closings, Reason
from hookfast.connections.connection import LEAST_RATE, Connection, Phase
from hookfast.connections.connections import ConnectionLimits, Connections
from hookfast.connections.counted_transport import CountedTransport
from hookfast.telemetry import instruments

pytestmark = pytest.mark.anyio

LIMITS = ConnectionLimits(
    total=12, per_client=5, head_seconds=20, idle_seconds=75, unread_seconds=30
)


class FakeTransport:
    def __init__(self) -> None:
        self.written = 0
        self.waiting = 0
        self.is_closed = False

    def unsent(self) -> int:
        return self.waiting

    def write(self, data: bytes) -> None:
        self.written += len(data)

    def send(self, size: int) -> None:
        """Write this much, all of which waits."""
        self.written += size
        self.waiting += size

    def close(self) -> None:
        self.is_closed = True

    reset = close


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def entered(connections: Connections, peer: str | None = None) -> tuple[Connection, FakeTransport]:
    transport = FakeTransport()
    return connections.enter(cast(CountedTransport, transport), peer), transport


async def test_counts_stay_right_whatever_happens_in_whatever_order() -> None:
    dice = random.Random(38)
    clock = Clock()
    connections = Connections(LIMITS, site_of=lambda peer: peer, clock=clock)
    alive: list[tuple[Connection, FakeTransport, str | None]] = []
    refused = 0
    for _ in range(20_000):
        clock.now += dice.expovariate(5)
        peer = dice.choice(["a", "b", "c", "d", None])
        step = dice.choices(
            ["enter", "late", "answer", "answered", "start", "leave"], [4, 1, 4, 1, 1, 1]
        )[0]
        connection, transport, _ = dice.choice(alive) if alive else (None, None, None)
        if step == "enter":
            connection, transport = entered(connections, peer)
            refused += connection.phase is Phase.REFUSED
            alive.append((connection, transport, peer))
        elif step == "late":
            connections.close_late(clock.now)
        elif connection is None or transport is None:
            continue
        elif step == "leave" or connection.phase is Phase.REFUSED:
            connections.leave(connection)
            transport.is_closed = True
        elif step == "answer":
            connection.answer()
            transport.waiting = dice.choice([0, 0, 1_000_000])
        elif step == "answered" and connection.phase is Phase.ANSWERING:
            connection.answered()
        elif step == "start" and connection.phase is not Phase.STARTING:
            connection.start()
        alive = [each for each in alive if not each[1].is_closed]
        counted = [each for each in alive if each[0].phase is not Phase.REFUSED]
        for site in ("a", "b", "c", "d"):
            assert sum(peer == site for *_, peer in counted) <= LIMITS.per_client
        assert len(counted) <= LIMITS.total
        everyone = connections._all
        assert everyone.size == len(connections._open) == len(counted)
        phases = [connection.phase for connection, *_ in counted]
        assert len(everyone.starting) == phases.count(Phase.STARTING)
        assert len(everyone.idle) == phases.count(Phase.IDLE)
        assert set(connections._sites) == {peer for *_, peer in counted} - {None}
        assert len(connections._refused) <= 64
    assert refused > 20


def test_client_that_takes_the_least_rate_is_not_closed() -> None:
    transport = FakeTransport()
    connection = _answering(transport)
    transport.send(10_000_000)
    for second in range(1_000):
        assert not connection.is_unread(second, seconds=30)
        transport.waiting -= LEAST_RATE + LEAST_RATE // 8


@pytest.mark.parametrize("rate", [0, 1, LEAST_RATE // 2])
def test_client_that_takes_less_is_closed_after_the_time(rate: int) -> None:
    transport = FakeTransport()
    connection = _answering(transport)
    transport.send(10_000_000)
    for second in range(30):
        assert not connection.is_unread(second, seconds=30)
        transport.waiting -= rate
    assert connection.is_unread(30, seconds=30)


def test_reading_much_at_once_buys_no_time_later() -> None:
    transport = FakeTransport()
    connection = _answering(transport)
    transport.send(10_000_000)
    assert not connection.is_unread(0, seconds=30)
    transport.waiting -= 5_000_000
    assert not connection.is_unread(1, seconds=30)
    assert not connection.is_unread(30, seconds=30)
    assert connection.is_unread(31, seconds=30)


def test_client_that_takes_all_that_waited_is_not_closed() -> None:
    """A quiet stream: little is sent, and something new waits each time."""
    transport = FakeTransport()
    connection = _answering(transport)
    transport.send(100)
    for second in range(100):
        assert not connection.is_unread(second, seconds=30)
        transport.waiting = 0
        transport.send(100)


def _answering(transport: FakeTransport) -> Connection:
    connection = Connection(
        cast(CountedTransport, transport), site=None, groups=(), clock=lambda: 0.0
    )
    connection.answer()
    return connection


def test_each_reason_has_a_line_a_minute_with_a_count() -> None:
    clock = Clock()
    closings = Closings(clock)
    with capture_logs() as lines:
        for number in range(1_000):
            closings.note(Reason.SLOW_REQUEST, f"192.0.2.{number % 250}")
        closings.note(Reason.UNREAD_ANSWER, None)
        clock.now += 60
        closings.write_lines()
        clock.now += 60
        closings.write_lines()
    assert [_told(line) for line in lines] == [
        ("slow_request", 1, "192.0.2.0"),
        ("unread_answer", 1, None),
        ("slow_request", 999, "192.0.2.249"),
    ]


def _told(line: Any) -> tuple[str, int, str | None]:
    return line["reason"], line["count"], line.get("client")


def test_metric_has_every_reason_and_no_other() -> None:
    started = instruments.CONNECTIONS_CLOSED._starts["api"]
    assert started == tuple(reason.value for reason in Reason)

"""What a transport passes on, and when."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from hookfast.connections.counted_transport import CountedTransport


class Below(asyncio.Transport):
    """Keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []

    def write(self, data: object) -> None:
        self.written.append(cast(bytes, data))

    def close(self) -> None:
        self.written.append(b"closed")

    def get_write_buffer_size(self) -> int:
        return 0


@pytest.fixture
def below() -> Below:
    return Below()


@pytest.fixture
def counted(below: Below) -> CountedTransport:
    return CountedTransport(below)


def test_each_write_is_passed_on_at_once(below: Below, counted: CountedTransport) -> None:
    counted.write(b"a")
    assert below.written == [b"a"]
    counted.write(b"b")
    assert below.written == [b"a", b"b"]


def test_held_write_is_passed_on_with_the_next_one(below: Below, counted: CountedTransport) -> None:
    counted.hold_next()
    counted.write(b"head")
    assert below.written == []
    counted.write(b"body")
    counted.write(b"more")
    assert below.written == [b"headbody", b"more"]
    assert counted.written == 12


def test_held_write_is_passed_on_with_an_empty_one(below: Below, counted: CountedTransport) -> None:
    counted.hold_next()
    counted.write(b"head")
    counted.write(b"")
    assert below.written == [b"head"]


def test_held_write_is_passed_on_before_the_connection_is_closed(
    below: Below, counted: CountedTransport
) -> None:
    counted.hold_next()
    counted.write(b"head")
    counted.close()
    assert below.written == [b"head", b"closed"]

"""What request bodies may take of a process's memory."""

from __future__ import annotations

import asyncio
import tracemalloc
from contextlib import ExitStack
from urllib.parse import parse_qsl

import pytest

from api.limits import body_memory
from api.limits.body_memory import ArrivingBodies, BodyMemory, ParsedBodies, parsed_size
from hookfast.errors import Unavailable

pytestmark = pytest.mark.anyio


def test_beyond_the_limit_callers_are_told_to_come_again() -> None:
    arriving = ArrivingBodies(100, largest=40)
    with ExitStack() as stack:
        shares = [stack.enter_context(arriving.share(owner)) for owner in ("a", "b", "c")]
        shares[0].grow(50)
        shares[1].grow(49)
        with pytest.raises(Unavailable) as refused:
            shares[2].grow(2)
        assert (refused.value.code, refused.value.retry_after) == ("overloaded", 1)
    with arriving.share("d") as share:  # what was answered is in hand no more
        share.grow(50)


def test_one_owner_has_half_of_it_and_the_largest_body_fits_in_any_case() -> None:
    arriving = ArrivingBodies(100, largest=60)
    with arriving.share("a") as one, arriving.share("a") as two, arriving.share("b") as other:
        one.grow(60)
        with pytest.raises(Unavailable):
            two.grow(1)
        other.grow(40)
    with ArrivingBodies(100, largest=500).share("a") as share:
        share.grow(500)


async def test_what_is_said_to_come_is_room_that_nobody_else_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arriving = ArrivingBodies(200, largest=100)
    with arriving.share("a") as two:
        with arriving.share("a") as one:
            await one.reserve(90)
            waiting = asyncio.create_task(two.reserve(90))
            one.grow(50)
            one.grow(50)  # more than it said
            assert not waiting.done()
        await waiting
        monkeypatch.setattr(body_memory, "_WAIT_SECONDS", 0.01)
        with arriving.share("a") as three, pytest.raises(Unavailable):
            await three.reserve(90)


def test_strangers_leave_room_for_those_who_are_known() -> None:
    memory = BodyMemory(100, largest_authenticated=10, largest_unauthenticated=10)
    with memory.unauthenticated.share("a") as a, memory.unauthenticated.share("b") as b:
        a.grow(25)
        b.grow(25)
        with memory.unauthenticated.share("c") as c, pytest.raises(Unavailable):
            c.grow(1)
        with memory.authenticated.share("") as known:
            known.grow(25)


async def test_what_is_large_once_parsed_waits_and_what_is_small_passes_by() -> None:
    body = b"[" * 1_000
    parsed = ParsedBodies(parsed_size(body) * 3 // 2)
    small_is_done = asyncio.Event()
    order = []

    async def parse(name: str, body: bytes) -> None:
        async with parsed.reserve(body):
            order.append(name)
            if name == "one":
                await small_is_done.wait()

    one = asyncio.create_task(parse("one", body))
    two = asyncio.create_task(parse("two", body))
    await asyncio.sleep(0)
    await parse("small", b"[1]")
    small_is_done.set()
    await asyncio.gather(one, two)
    assert order == ["one", "small", "two"]


async def test_what_would_wait_too_long_is_told_to_come_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(body_memory, "_WAIT_SECONDS", 0.01)
    parsed = ParsedBodies(1_000)
    async with parsed.reserve(b"[" * 1_000):  # more than there is: it has three quarters
        with pytest.raises(Unavailable):
            async with parsed.reserve(b"[" * 1_000):
                pass
        async with parsed.reserve(b"[]"):
            pass
    async with parsed.reserve(b"[" * 1_000):
        pass


@pytest.mark.parametrize(
    "body",
    [
        b"a=" + b"%20" * 100_000,
        b"a=" + b"%20x" * 100_000,
        b"a=" + b"%F0%9F%A6%8A" * 25_000,
        b"&".join(b"a%d=%s" % (number, b"%20" * 300) for number in range(300)),
        b"a=" + b"+" * 300_000,
        b"a=" + b"x" * 300_000,
    ],
    ids=lambda body: repr(body[:12]),
)
def test_a_form_takes_no_more_than_is_reckoned(body: bytes) -> None:
    tracemalloc.start()
    try:
        parse_qsl(body.decode(), keep_blank_values=True)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= parsed_size(body)

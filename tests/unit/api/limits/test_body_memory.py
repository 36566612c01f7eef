"""Limits of the memory for request bodies."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Callable
from contextlib import ExitStack
from urllib.parse import parse_qsl

import pytest

from api.limits import body_memory
from api.limits.body_memory import ArrivingBodies, BodyMemory, ParsedBodies, parsed_size
from hookfast.errors import Unavailable
from hookfast.strict_json.parser import parse

pytestmark = pytest.mark.anyio


def test_requests_over_the_limit_are_rejected_with_retry_after() -> None:
    arriving = ArrivingBodies(100, largest=40)
    with ExitStack() as stack:
        shares = [stack.enter_context(arriving.share(owner)) for owner in ("a", "b", "c")]
        shares[0].grow(50)
        shares[1].grow(49)
        with pytest.raises(Unavailable) as refused:
            shares[2].grow(2)
        assert (refused.value.code, refused.value.retry_after) == ("overloaded", 1)
    with arriving.share("d") as share:  # finished requests have released their bytes
        share.grow(50)


def test_owner_may_use_half_and_the_largest_body_always_fits() -> None:
    arriving = ArrivingBodies(100, largest=60)
    with arriving.share("a") as one, arriving.share("a") as two, arriving.share("b") as other:
        one.grow(60)
        with pytest.raises(Unavailable):
            two.grow(1)
        other.grow(40)
    with ArrivingBodies(100, largest=500).share("a") as share:
        share.grow(500)


async def test_declared_size_is_reserved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arriving = ArrivingBodies(200, largest=100)
    with arriving.share("a") as two:
        with arriving.share("a") as one:
            await one.reserve(90)
            waiting = asyncio.create_task(two.reserve(90))
            one.grow(50)
            one.grow(50)  # more than it declared
            assert not waiting.done()
        await waiting
        monkeypatch.setattr(body_memory, "_WAIT_SECONDS", 0.01)
        with arriving.share("a") as three, pytest.raises(Unavailable):
            await three.reserve(90)


def test_unauthenticated_callers_leave_memory_for_authenticated_ones() -> None:
    memory = BodyMemory(100, largest_authenticated=10, largest_unauthenticated=10)
    with memory.unauthenticated.share("a") as a, memory.unauthenticated.share("b") as b:
        a.grow(25)
        b.grow(25)
        with memory.unauthenticated.share("c") as c, pytest.raises(Unavailable):
            c.grow(1)
        with memory.authenticated.share("") as known:
            known.grow(25)


async def test_large_parsed_body_waits_and_small_ones_do_not() -> None:
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


async def test_body_that_would_wait_too_long_is_rejected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(body_memory, "_WAIT_SECONDS", 0.01)
    parsed = ParsedBodies(1_000)
    async with parsed.reserve(b"[" * 1_000):  # larger than the limit: it counts as three quarters
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
def test_parsed_form_takes_at_most_the_estimated_memory(body: bytes) -> None:
    assert peak_of(lambda: parse_qsl(body.decode(), keep_blank_values=True)) <= parsed_size(body)


@pytest.mark.parametrize(
    "element",
    [
        *("1", "1.1", "1e1", "1E1", "1.5e3", "0.0000000", "12345678901234567890", "-0"),
        *('""', '"a"', '"é"', "[]", "{}", "[1.5]", '{"":{}}', '{"a":1e5}', "null"),
    ],
)
def test_parsed_json_takes_at_most_the_estimated_memory(element: str) -> None:
    body = f"[{','.join([element] * 20_000)}]".encode()
    assert peak_of(lambda: parse(body)) <= parsed_size(body)


def peak_of(work: Callable[[], object]) -> int:
    """Return the most memory that some work takes, in bytes."""
    tracemalloc.start()
    try:
        result = work()
        _, peak = tracemalloc.get_traced_memory()
        del result
    finally:
        tracemalloc.stop()
    return peak

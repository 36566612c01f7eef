from __future__ import annotations

import asyncio

import pytest

from api.context.flushing import flushing

pytestmark = pytest.mark.anyio


async def test_data_gathered_until_the_end_is_written() -> None:
    gathered, written = ["one"], []

    async def write() -> None:
        written.extend(gathered)
        gathered.clear()

    async with flushing(write, seconds=3600, name="test"):
        gathered.append("two")
    assert written == ["one", "two"]


async def test_end_of_the_block_does_not_cancel_a_write() -> None:
    taken, written = asyncio.Event(), []

    async def write() -> None:
        number = len(written)
        taken.set()
        await asyncio.sleep(0.05)
        written.append(number)

    async with flushing(write, seconds=0, name="test"):
        await taken.wait()
    assert written == [0, 1]

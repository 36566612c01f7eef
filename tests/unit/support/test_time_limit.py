"""An async test that exceeds its time limit is cancelled, and prints where it waits."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.time_limit import cancelled_after

pytestmark = pytest.mark.anyio


async def test_hanging_test_is_cancelled_and_prints_where_it_waits(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def hanging() -> None:
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await cancelled_after(hanging, 0.05)()
    assert "hanging (" in capsys.readouterr().err


async def test_time_limit_passes_fixtures_to_the_test() -> None:
    received = []

    async def test(value: int) -> None:
        received.append(value)

    await cancelled_after(test, 60.0)(value=1)
    assert received == [1]

"""An async test that waits for what never comes ends, and says what it waits for."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.time_limit import ending

pytestmark = pytest.mark.anyio


async def test_a_test_that_hangs_is_cancelled(capsys: pytest.CaptureFixture[str]) -> None:
    async def hanging() -> None:
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await ending(hanging, 0.05)()
    assert "hanging (" in capsys.readouterr().err


async def test_its_fixtures_are_handed_over() -> None:
    given = []

    async def taking(value: int) -> None:
        given.append(value)

    await ending(taking, 60.0)(value=1)
    assert given == [1]

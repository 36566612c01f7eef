"""The first signal ends `hookfast up`; the second cuts its clean-up short."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from hookfast.cli import up
from hookfast.settings.settings import Settings
from hookfast.supervisor.interrupt import interruptible
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_signal_ends_the_block_and_a_second_one_cuts_the_clean_up_short(
    number: signal.Signals,
) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it stays ignored
    try:
        async with interruptible() as hurry:
            try:
                signal.raise_signal(number)
                await asyncio.Event().wait()
            finally:
                assert not hurry.is_set()
                signal.raise_signal(number)
                await hurry.wait()
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_signal_while_up_replaces_itself_ends_the_block(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(up, "read_settings", lambda: Settings(home=tmp_path))
    monkeypatch.setattr(up, "keep_files_private", lambda: None)
    monkeypatch.setattr(up, "find_binary", lambda: "temporal")
    monkeypatch.setattr(os, "execv", lambda *_: signal.raise_signal(number))

    up.main(workers=None)

    async with interruptible():
        await asyncio.sleep(PATIENCE)
        pytest.fail("the signal was lost")


async def test_other_cancellation_is_not_taken_for_a_signal() -> None:
    async def cancelled() -> None:
        async with interruptible():
            await asyncio.Event().wait()

    task = asyncio.create_task(cancelled())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

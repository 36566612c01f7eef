"""The POST of `trigger`: errors without header values, and limits on the response."""

from __future__ import annotations

import asyncio

import pytest

from hookfast.cli.remote.api import Unreachable
from hookfast.cli.remote.trigger.send import post
from tests.e2e.service_process import free_ports
from tests.support.receiver import Receiver
from tests.support.waiting import PATIENCE, within


def test_invalid_header_is_rejected_without_repeating_it() -> None:
    [port] = free_ports(1)
    with pytest.raises(Unreachable) as failed:
        post(f"http://127.0.0.1:{port}/hooks", headers={"X-Gitlab-Token": "a\nsecret"}, body=b"{}")
    assert "secret" not in failed.value.message


@pytest.mark.anyio
async def test_slow_response_ends_at_the_time_limit() -> None:
    async with Receiver() as receiver:
        url = receiver.url("/drip-body/0.05")
        sending = asyncio.to_thread(post, url, headers={}, body=b"{}", response_seconds=0.2)
        with pytest.raises(Unreachable, match="did not finish its response"):
            await within(PATIENCE, sending)


@pytest.mark.anyio
@pytest.mark.parametrize("path", ["/endless-body", "/endless-chunks"])
async def test_endless_response_is_read_up_to_its_limit(path: str) -> None:
    async with Receiver() as receiver:
        sending = asyncio.to_thread(post, receiver.url(path), headers={}, body=b"{}")
        answered = await within(PATIENCE, sending)
    assert (answered.status, len(answered.text)) == (200, 65_536)

"""The POST that `trigger` makes: what cannot be sent is said without its headers."""

from __future__ import annotations

import asyncio

import pytest

from hookfast.cli.remote.client import Unreachable
from hookfast.cli.remote.trigger import post
from tests.e2e.service_process import free_ports
from tests.support.receiver import Receiver
from tests.support.waiting import PATIENCE, within


def test_a_header_that_cannot_be_sent_is_not_repeated() -> None:
    [port] = free_ports(1)
    with pytest.raises(Unreachable) as failed:
        post(f"http://127.0.0.1:{port}/hooks", headers={"X-Gitlab-Token": "a\nsecret"}, body=b"{}")
    assert "secret" not in failed.value.message


@pytest.mark.anyio
async def test_an_answer_that_keeps_coming_is_waited_for_only_so_long() -> None:
    async with Receiver() as receiver:
        url = receiver.url("/drip-body/0.05")
        sending = asyncio.to_thread(post, url, headers={}, body=b"{}", response_seconds=0.2)
        with pytest.raises(Unreachable, match="did not finish its response"):
            await within(PATIENCE, sending)


@pytest.mark.anyio
@pytest.mark.parametrize("path", ["/endless-body", "/endless-chunks"])
async def test_of_an_endless_answer_the_start_is_enough(path: str) -> None:
    async with Receiver() as receiver:
        sending = asyncio.to_thread(post, receiver.url(path), headers={}, body=b"{}")
        answered = await within(PATIENCE, sending)
    assert (answered.status, len(answered.text)) == (200, 65_536)

"""Runs a relay in a process: with Hookfast's client, and until a signal stops it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from hookfast_client.aio.client import AsyncHookfast
from hookfast_client.call import emit_batch
from hookfast_client.outbox.observer import Observer
from hookfast_client.outbox.queue import Queue
from hookfast_client.outbox.relay import Relay
from hookfast_client.outbox.sending import Post
from hookfast_client.outbox.table import DEFAULT_TABLE, TableName

ANSWER_SECONDS = 30.0
"""How long Hookfast may take for a batch, during which its rows are locked."""
_STOP_SECONDS = 10.0
"""How long a batch that is being sent may still take once the relay is to stop. To give it up is
safe: its rows are sent again with the same keys."""


def run_relay(
    database_url: str,
    hookfast: AsyncHookfast,
    *,
    table: str = DEFAULT_TABLE,
    rows: int = 500,
    keep: timedelta = timedelta(0),
    poll_seconds: float = 1.0,
    parallel: bool = False,
    once: bool = False,
    observer: Observer | None = None,
) -> None:
    """Relay the outbox until SIGINT or SIGTERM; with `once`, until it is empty.

    `rows` is the most events of a request. Sent rows are kept for `keep`, and deleted at once
    without it. `parallel` lets several relays of a table work at the same time, without any order
    between events. Raises ValueError for an invalid argument, DatabaseUnusable and KeyDenied.
    """
    relay = Relay(
        database_url=database_url,
        queue=Queue(TableName.parse(table)),
        post=poster(hookfast),
        rows=rows,
        keep=keep,
        poll_seconds=poll_seconds,
        parallel=parallel,
        observer=observer or Observer(),
    )
    asyncio.run(_run_until_stopped(relay, hookfast, once=once))


def poster(hookfast: AsyncHookfast) -> Post:
    """Return a function that posts a batch with this client, once: the relay itself tries again,
    without a claim meanwhile."""
    client = hookfast.with_options(
        timeout=ANSWER_SECONDS, attempt_timeout=ANSWER_SECONDS, max_retries=0
    )

    async def post(events: Sequence[bytes]) -> Sequence[Mapping[str, Any]]:
        answer = await client.send(emit_batch(events))
        items = answer.value.get("data")
        return items if isinstance(items, list) else ()

    return post


async def _run_until_stopped(relay: Relay, hookfast: AsyncHookfast, *, once: bool) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    async with hookfast:
        running = asyncio.create_task(relay.run(until_empty=once), name="outbox-relay")
        stopping = asyncio.create_task(stopped.wait(), name="outbox-relay-stop")
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        relay.stop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                await running

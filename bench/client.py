"""Emitting through the Python client, against bare httpx2 requests: `make client-bench`.

Each row emits to the same API, which runs in a process of its own on SQLite: single events and
batches of 100, from one thread and from 16 tasks. A bare row posts a body that is serialised each
time, and parses the answer, as one would without the client. CPU is that of this process. The rows
take turns, so that other load affects all of them; a figure is the median of the rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import uvloop
from rich.console import Console
from rich.table import Table

from bench.emit import BATCH, CONNECTIONS, ONE, register_endpoints, running_api, sample_event
from bench.parts import OPERATOR_KEY
from hookfast_client import AsyncHookfast, Hookfast, NewEvent

Emit = Callable[[], Awaitable[object]]
"""Emits a single event or a batch."""

_DATA: dict[str, Any] = sample_event(ONE)["data"]
_EVENTS: list[NewEvent] = [{"type": ONE, "data": _DATA} for _ in range(BATCH)]
_HEADERS = {"Authorization": f"Bearer {OPERATOR_KEY}", "Content-Type": "application/json"}
_ONE_THREAD, _TASKS = "one thread", f"{CONNECTIONS} tasks"


def _bare_body(*, batch: bool) -> tuple[str, bytes]:
    if batch:
        return "/v1/events/batch", json.dumps({"events": _EVENTS}).encode()
    return "/v1/events", json.dumps({"type": ONE, "data": _DATA}).encode()


@asynccontextmanager
async def _rows(url: str) -> AsyncIterator[dict[tuple[str, str, bool], Emit]]:
    """Yield the function of each row, by who emits, how, and whether in batches."""
    with (
        httpx2.Client(base_url=url, headers=_HEADERS, trust_env=False) as bare,
        Hookfast(url, OPERATOR_KEY) as client,
    ):
        limits = httpx2.Limits(max_connections=CONNECTIONS)
        async with (
            httpx2.AsyncClient(
                base_url=url, headers=_HEADERS, trust_env=False, limits=limits
            ) as async_bare,
            AsyncHookfast(url, OPERATOR_KEY) as async_client,
        ):

            def post(*, batch: bool) -> Any:
                path, body = _bare_body(batch=batch)
                return bare.post(path, content=body).raise_for_status().json()

            async def async_post(*, batch: bool) -> Any:
                path, body = _bare_body(batch=batch)
                answer = await async_bare.post(path, content=body)
                return answer.raise_for_status().json()

            async def blocking(emit: Callable[[], object]) -> object:
                return emit()

            yield {
                ("httpx2", _ONE_THREAD, False): lambda: blocking(lambda: post(batch=False)),
                ("client", _ONE_THREAD, False): lambda: blocking(
                    lambda: client.events.emit(ONE, _DATA)
                ),
                ("httpx2", _TASKS, False): lambda: async_post(batch=False),
                ("client", _TASKS, False): lambda: async_client.events.emit(ONE, _DATA),
                ("httpx2", _ONE_THREAD, True): lambda: blocking(lambda: post(batch=True)),
                ("client", _ONE_THREAD, True): lambda: blocking(
                    lambda: client.events.emit_batch(_EVENTS)
                ),
                ("httpx2", _TASKS, True): lambda: async_post(batch=True),
                ("client", _TASKS, True): lambda: async_client.events.emit_batch(_EVENTS),
            }


async def _measure(emit: Emit, requests: int, *, tasks: int, per: int) -> tuple[float, float]:
    """Return the events per second, and the CPU microseconds of each event."""
    left = iter(range(requests))

    async def work() -> None:
        for _ in left:
            await emit()

    began, before = time.perf_counter(), time.process_time()
    await asyncio.gather(*(work() for _ in range(tasks)))
    events = requests * per
    return events / (time.perf_counter() - began), (time.process_time() - before) / events * 1e6


async def _main(count: int, rounds: int) -> None:
    figures: dict[tuple[str, str, bool], list[tuple[float, float]]] = {}
    async with (
        running_api("api", Path.cwd(), postgresql=False, register=register_endpoints) as api,
        _rows(f"http://127.0.0.1:{api.port}") as rows,
    ):
        for number in range(rounds + 1):
            for row, emit in rows.items():
                _, how, batch = row
                found = await _measure(
                    emit,
                    count // 20 if batch else count,
                    tasks=1 if how == _ONE_THREAD else CONNECTIONS,
                    per=BATCH if batch else 1,
                )
                if number > 0:  # the first round is the warm-up
                    figures.setdefault(row, []).append(found)
    _report(figures)


def _report(figures: dict[tuple[str, str, bool], list[tuple[float, float]]]) -> None:
    table = Table(title="emitting through the client, and bare (medians)")
    for heading in ("", "emits/s bare", "client", "CPU µs an event bare", "client", "× bare"):
        table.add_column(heading, justify="right" if heading else "left")
    for who, how, batch in figures:
        if who == "client":
            continue
        bare, client = (
            [statistics.median(each) for each in zip(*figures[name, how, batch], strict=True)]
            for name in ("httpx2", "client")
        )
        table.add_row(
            f"{f'batches of {BATCH}' if batch else 'single'}, {how}",
            *(f"{bare[0]:,.0f}", f"{client[0]:,.0f}", f"{bare[1]:,.1f}", f"{client[1]:,.1f}"),
            f"{client[1] / bare[1]:.2f}",
        )
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.client", description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="single events a row and round")
    parser.add_argument("--rounds", type=int, default=3, help="turns after the warm-up")
    arguments = parser.parse_args()
    uvloop.run(_main(arguments.count, arguments.rounds))


if __name__ == "__main__":
    main()

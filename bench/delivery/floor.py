"""The floor next to the product: `bench.floor` in a process of its own, on the same Temporal.

It is started when it is first needed, and waits between its turns.
"""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from typing import Self

import psutil

from bench.parts import Bench, cpu_seconds, spent_since

_IN_FLIGHT = 64
_READY_SECONDS = 60


class Floor:
    """The process of the floor. Close it with `aclose`."""

    def __init__(self, bench: Bench, process: Process) -> None:
        self._bench = bench
        self._process = process

    @property
    def process(self) -> psutil.Process:
        """The process, to measure it."""
        return psutil.Process(self._process.pid)

    @classmethod
    async def start(cls, bench: Bench) -> Self:
        """Start the process, and wait until it has warmed up."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bench.floor", f"{bench.sink}/floor", str(_IN_FLIGHT)),
            env=os.environ | {"TEMPORAL_ADDRESS": bench.temporal_address},
            stdin=PIPE,
            stdout=PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        floor = cls(bench, process)
        try:
            async with asyncio.timeout(_READY_SECONDS):
                await floor._said("ready")
        except BaseException:
            await floor.aclose()
            raise
        return floor

    async def deliver(self, count: int) -> tuple[float, dict[str, float]]:
        """Deliver this many. Return the seconds that it took, and CPU seconds by process."""
        process = self.process
        before = self._bench.cpu_now() | {"worker": cpu_seconds(process)}
        assert self._process.stdin is not None
        self._process.stdin.write(b"%d\n" % count)
        seconds = float(await self._said("took"))
        after = self._bench.cpu_now() | {"worker": cpu_seconds(process)}
        spent = spent_since(before, after)
        # the product's own processes are idle: their CPU does not count for the floor
        for name in spent.keys() - {"temporal", "worker", "sink"}:
            spent[name] = 0.0
        return seconds, spent

    async def aclose(self) -> None:
        """End the process."""
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def _said(self, word: str) -> str:
        """Return the rest of the next line that begins with this word, skipping log lines."""
        assert self._process.stdout is not None
        while line := (await self._process.stdout.readline()).decode():
            if line.startswith(word):
                return line.removeprefix(word).strip()
        raise AssertionError("the floor ended early")

"""The load generator of a measurement, which sends a plan of requests from a process of its own,
and the sink that belongs to it.

Both are one Go program (`bench/load/`), built into `var/` when it is first used. Without Go, or if
the build fails, Python is used (`bench.sending`, `bench.sink`). Microseconds of CPU per request,
measured on 2 cores:

                            sender, Go  sender, Python    sink, Go  sink, Python
    16 connections, flat out        13              20          10            15
    200 a second, open loop        277             263         120           100

So flat out, Python takes half as much again; at a low rate, most of the cost is to wake a process.
Either is little beside the 1.5 to 6 ms that an event takes in the API.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.parts import OPERATOR_KEY

_SOURCE = Path(__file__).parent / "load"
BINARY = Path(__file__).parents[1] / "var" / "bench-load" / "load"
_BUILD_SECONDS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Requests to send. `bodies` are used in turns; `{sent_at}` in them becomes the monotonic
    nanoseconds at which the request was planned. With a `rate` (per second) the times are fixed
    beforehand, so that a delay counts for every request that was due meanwhile; without, each of
    the `connections` sends after its answer. Every answer must be 2xx and contain `expect`."""

    url: str
    bodies: tuple[str, ...]
    count: int
    connections: int = 1
    rate: float = 0.0
    expect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a plan: when it began and ended (monotonic ns), milliseconds from each
    request's planned time to its answer, answers by status, the first faults, and CPU seconds."""

    begun: int
    ended: int
    latencies: list[float]
    statuses: dict[str, int]
    faults: list[str]
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class Load:
    """The commands of the sender and the sink. `why_python` says why they are not in Go."""

    sender: tuple[str, ...]
    sink: tuple[str, ...]
    why_python: str | None = None

    async def send(self, plan: Plan) -> Outcome:
        """Send the plan. Raises AssertionError if an answer was not as expected."""
        process = await asyncio.create_subprocess_exec(
            *self.sender,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is ours to handle
        )
        try:
            given = json.dumps(asdict(plan) | {"token": OPERATOR_KEY})
            printed, _ = await process.communicate(given.encode())
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert process.returncode == 0, f"{self.sender[0]} ended with {process.returncode}"
        outcome = Outcome(**json.loads(printed))
        assert not outcome.faults, f"{outcome.statuses}: {outcome.faults}"
        return outcome


PYTHON = Load((sys.executable, "-m", "bench.sending"), (sys.executable, "-m", "bench.sink"))


def find_load(*, python: bool = False) -> Load:
    """Return the sender and sink in Go, built if necessary; in Python if requested or if Go is
    unavailable."""
    if python:
        return Load(PYTHON.sender, PYTHON.sink, "asked for")
    try:
        binary = str(_build())
    except _CannotBuild as problem:
        return Load(PYTHON.sender, PYTHON.sink, str(problem))
    return Load((binary, "send"), (binary, "sink"))


class _CannotBuild(Exception):
    pass


def _build() -> Path:
    """The path of the program, no older than its source."""
    go = shutil.which("go")
    if go is None:
        raise _CannotBuild("there is no `go` on PATH")
    BINARY.parent.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"GOTOOLCHAIN": "local", "GOPROXY": "off", "GOWORK": "off"}
    if not any(environment.get(name) for name in ("GOCACHE", "HOME", "XDG_CACHE_HOME")):
        environment["GOCACHE"] = str(BINARY.parent / "cache")
    try:  # quick when nothing changed
        built = subprocess.run(
            [go, "build", "-buildvcs=false", "-o", str(BINARY), "."],
            cwd=_SOURCE,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_BUILD_SECONDS,
            start_new_session=True,
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise _CannotBuild(f"go build: {problem}") from None
    if built.returncode:
        raise _CannotBuild(f"go build: {built.stderr.strip()[:500]}")
    return BINARY

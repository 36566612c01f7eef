"""Starts child processes, restarts them when they end, and stops them in order.

Each runs on a leash (it dies with the supervisor) and in a session of its own: a Ctrl-C in the
terminal reaches only the supervisor, which then stops the parts, last started first. Parts that
were started together are stopped together.
"""

from __future__ import annotations

import asyncio
import math
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

import structlog

from hookfast.errors import HookfastError
from hookfast.supervisor.leash import leashed

_FIRST_DELAY = 0.2
_LONGEST_DELAY = 10.0
_STEADY_AFTER = 30.0  # a part that ran this long restarts after the shortest pause
_TRIES = 3
_LOG_SECONDS = 60.0

log = structlog.get_logger()


class CannotStart(HookfastError):
    """A part of the service does not start. Its log says why."""

    code = "cannot_start"


class Running(Protocol):
    """A child process. `wait` returns its exit code, or the negative number of a signal."""

    @property
    def pid(self) -> int: ...
    async def wait(self) -> int: ...
    def send_signal(self, signal: signal.Signals, /) -> None: ...


async def spawn(part: Part) -> Running:
    """Start the part as a process with its command line. Raises OSError."""
    return await asyncio.create_subprocess_exec(
        *leashed(*part.command),
        stdin=asyncio.subprocess.PIPE,  # it ends when we do, which the leash notices
        stdout=part.output if part.stdout is None else part.stdout,
        stderr=part.output,
        env=dict(part.environment),
        cwd=part.folder,
        pass_fds=part.fds,
        start_new_session=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A process to keep running.

    `environment` is its whole environment. `output` is the file descriptor for its output (default:
    our standard error), `stdout` another one for its standard output; it inherits `fds`. It runs in
    `folder` (default: ours). `grace` is the time between SIGTERM and SIGKILL, in seconds;
    `before_stop` is called before SIGTERM. `spawn` starts it.
    """

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    grace: float
    output: int = 2
    stdout: int | None = None
    folder: Path | None = None
    fds: tuple[int, ...] = ()
    before_stop: Callable[[], None] = lambda: None
    spawn: Callable[[Part], Awaitable[Running]] = spawn


class Supervisor:
    """Keeps parts running during its block, then stops them in reverse order.

    Until `settle` is called, a part that ends three times makes the block fail with CannotStart;
    after that, parts are restarted for ever, after a pause of 0.2 s that doubles up to 10 s.
    `hurry` cuts the grace short.
    """

    def __init__(self, hurry: asyncio.Event) -> None:
        self._hurry = hurry
        self._groups: list[list[Keeper]] = []
        self._settled = False
        self._failure: CannotStart | None = None

    async def __aenter__(self) -> Self:
        self._owner = asyncio.current_task()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._settled = True
        for group in reversed(self._groups):
            await asyncio.gather(*(keeper.stop(self._hurry) for keeper in group))
        if self._failure is not None:
            if self._owner is not None:
                self._owner.uncancel()
            raise self._failure from None

    def start(self, *parts: Part) -> list[Keeper]:
        """Start these parts, which will also be stopped together, and keep them running. Return
        them: what is added to the list is stopped with them, too."""
        self._groups.append([self.keep(part) for part in parts])
        return self._groups[-1]

    def keep(self, part: Part) -> Keeper:
        """Start a part and keep it running. Add it to the list of those that it is stopped with."""
        return Keeper(part, self._on_exit)

    async def stop(self, keeper: Keeper) -> None:
        """Stop one part. It stays in its list until the caller takes it out."""
        await keeper.stop(self._hurry)

    def pids(self) -> list[int]:
        """Return the ids of the processes."""
        keepers = (keeper for group in self._groups for keeper in group)
        return [keeper.pid for keeper in keepers if keeper.pid is not None]

    def settle(self) -> None:
        """Restart parts for ever from now on: all of them have started."""
        self._settled = True

    def exits(self, name: str) -> int:
        """Return how often the part with this name has ended by itself."""
        keepers = (keeper for group in self._groups for keeper in group)
        return next(keeper.exits for keeper in keepers if keeper.part.name == name)

    def _on_exit(self, keeper: Keeper, reason: str) -> None:
        if self._settled or keeper.exits < _TRIES or self._failure is not None:
            self._log_exit(keeper, reason)
            return
        self._failure = CannotStart(
            f"the {keeper.part.name} does not start: it ended {_TRIES} times ({reason}); "
            "its output says why"
        )
        if self._owner is not None:
            self._owner.cancel()

    def _log_exit(self, keeper: Keeper, reason: str) -> None:
        """Log that a part ended, at most once a minute for each: one that cannot start ends every
        ten seconds."""
        now = asyncio.get_running_loop().time()
        if now - keeper.logged_at >= _LOG_SECONDS:
            log.warning(
                "A part ended and is restarted.",
                part=keeper.part.name,
                how=reason,
                count=keeper.exits - keeper.logged_exits,
            )
            keeper.logged_at, keeper.logged_exits = now, keeper.exits


class Keeper:
    """Keeps one part running."""

    def __init__(self, part: Part, on_exit: Callable[[Keeper, str], None]) -> None:
        self.part = part
        self.exits = self.logged_exits = 0
        self.logged_at = -math.inf
        self._on_exit = on_exit
        self._stopping = asyncio.Event()
        self._process: Running | None = None
        self._task = asyncio.create_task(self._keep(), name=f"keep {part.name}")

    @property
    def pid(self) -> int | None:
        """The id of its current or last process; None before the first has started."""
        return None if self._process is None else self._process.pid

    async def stop(self, hurry: asyncio.Event) -> None:
        """Send SIGTERM, and SIGKILL after the part's grace or once `hurry` is set."""
        self.part.before_stop()
        self._stopping.set()
        self._signal(signal.SIGTERM)
        hurried = asyncio.create_task(hurry.wait())
        await asyncio.wait(
            {self._task, hurried}, timeout=self.part.grace, return_when=asyncio.FIRST_COMPLETED
        )
        hurried.cancel()
        if not self._task.done():
            log.warning("A part did not end in time and is killed.", part=self.part.name)
            self._kill()
        await self._task

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        delay = _FIRST_DELAY
        while not self._stopping.is_set():
            started = loop.time()
            try:
                self._process = await self.part.spawn(self.part)
            except OSError as error:  # no processes or memory left
                reason = str(error)
            else:
                if self._stopping.is_set():  # `stop` was called while it was being started
                    self._signal(signal.SIGTERM)
                reason = _exit_reason(await self._process.wait())
            if self._stopping.is_set():
                return
            self.exits += 1
            self._on_exit(self, reason)
            if loop.time() - started >= _STEADY_AFTER:
                delay = _FIRST_DELAY
            with suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self._stopping.wait()
            delay = min(delay * 2, _LONGEST_DELAY)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    def _kill(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                # it has its own session and so its own group, which a leash with `stay` is part of
                os.killpg(self._process.pid, signal.SIGKILL)


async def run_once(part: Part) -> int:
    """Run a process that ends by itself and return its exit code. Cancellation kills it."""
    process = await part.spawn(part)
    try:
        return await process.wait()
    except asyncio.CancelledError:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        raise


def _exit_reason(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with suppress(ValueError):
        return f"killed by {signal.Signals(-code).name}"
    return f"killed by signal {-code}"

"""A process of the service under test, that can be killed, frozen and started again."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from bench.chaos.clock import FakeClock
from hookfast.supervisor.leash import leashed

_RESTART_SECONDS = 1.0


class Part:
    """One process with its children. If it ends by itself, it is started again, as by a supervisor
    in production, and `ended_by_itself` counts that. Its processes end with ours."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        log: Path,
        clock: FakeClock | None = None,
        folder: Path | None = None,
    ) -> None:
        """`folder` is where it runs; None: where we do."""
        self.name = name
        self.clock = clock
        self.log = log
        self.ended_by_itself = 0
        self._command = leashed(*command)
        self._folder = folder
        self.environment = dict(environment)
        """Environment variables of the next process."""
        self._wanted = False
        self._process: asyncio.subprocess.Process | None = None
        self._keeper: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        """The id of the current or last process."""
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        """Start the process, and keep it running."""
        self._wanted = True
        await self._spawn()
        self._keeper = asyncio.create_task(self._keep(), name=f"keep-{self.name}")

    async def kill(self, number: int = signal.SIGKILL, *, patience: float = 0) -> None:
        """End the process with all its children by the signal `number`, or by SIGKILL if that takes
        longer than `patience`."""
        self._wanted = False
        if self._process is None or self._keeper is None:
            return
        family = self._family()
        if number != signal.SIGKILL:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await asyncio.shield(self._keeper)
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        await self._keeper

    def freeze(self) -> None:
        """Freeze the process by SIGSTOP."""
        for process in self._family():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.suspend()

    def thaw(self) -> None:
        """Continue the process by SIGCONT."""
        for process in self._family():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()

    def last_words(self) -> str:
        """Return the end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-5:])

    def _family(self) -> list[psutil.Process]:
        if self._process is None or self._process.returncode is not None:
            return []  # its id may belong to another process by now
        with contextlib.suppress(psutil.NoSuchProcess):
            parent = psutil.Process(self.pid)
            return [parent, *parent.children(recursive=True)]
        return []

    async def _spawn(self) -> None:
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                env=self.environment,
                cwd=self._folder,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # a Ctrl-C in the terminal is only for us
            )

    async def _keep(self) -> None:
        while True:
            assert self._process is not None
            await self._process.wait()
            if not self._wanted:
                return
            self.ended_by_itself += 1
            await asyncio.sleep(_RESTART_SECONDS)
            if not self._wanted:
                return
            await self._spawn()

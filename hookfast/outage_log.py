"""Temporal and the database as a process sees them, and what it logs while one of them is away: a
line when it goes, a line a minute, one for each further reason, and a line when it is back.

Everything in a process fails at once while one of them is away. So code whose work failed does not
log that: it calls `failed`, which makes the watch check the dependency now. If the dependency is
away, the watch's lines say so for all; if it answers, the failures are logged, once a minute each.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import structlog

from hookfast.logs.kind import Kind

REMIND_SECONDS: Final = 60.0
"""The least time between two lines that say that a dependency is away, for one reason."""
_MOST_REASONS: Final = 3
"""Reasons with a line within that time. Some are another service's text, and never repeat."""
_CHECK_SECONDS: Final = 5.0
_CHECK_AWAY_SECONDS: Final = 2.0
_LEAST_SECONDS: Final = 0.5
"""Between two checks, however much fails."""

log = structlog.get_logger()


class OutageLog:
    """Logs when a dependency, which all work of a process needs, is away. One per process and
    dependency."""

    def __init__(
        self,
        name: str,
        *,
        consequence: str,
        remind: float = REMIND_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`name` begins a sentence; `consequence` says what happens while it is away. `remind` is
        in seconds, as is `clock`."""
        self._name = name
        self._consequence = consequence
        self._remind = remind
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken = asyncio.Event()
        self._away_since: float | None = None
        self._reported_since: float | None = None
        self._reported_at = self._answered_at = -REMIND_SECONDS - remind
        self._told: dict[str, float] = {}
        self._interruptions = 0
        self._failures = 0
        self._unlogged: Counter[str] = Counter()
        self._newest: dict[str, dict[str, Any]] = {}
        self._logged_at: dict[str, float] = {}

    def failed(self, event: str, **fields: Any) -> None:
        """Report that work failed, perhaps because the dependency is away. `event` and the fields
        are the line that is logged if it is not, or if nothing watches it. Any thread may call
        this."""
        loop = self._loop
        if loop is None:
            log.warning(event, **fields)
            return
        try:
            inside = asyncio.get_running_loop() is loop
        except RuntimeError:
            inside = False
        if inside:
            self._note(event, fields)
        else:
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(self._note, event, fields)

    def observe(self, failure: str | None) -> None:
        """Take the result of a check: None if the dependency answered, else why not, in words."""
        now = self._clock()
        if failure is None:
            self._answered(now)
        else:
            self._did_not_answer(failure, now)

    @asynccontextmanager
    async def watched(self, check: Callable[[], Awaitable[str | None]]) -> AsyncIterator[None]:
        """Check the dependency every few seconds while the block runs. `check` returns what
        `observe` takes."""
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        task = asyncio.create_task(self._check_forever(check), name=f"watch-{self._name}")
        try:
            yield
        finally:
            self._loop = None
            task.cancel()
            await asyncio.wait([task])

    async def _check_forever(self, check: Callable[[], Awaitable[str | None]]) -> None:
        while True:
            self._woken.clear()
            self.observe(await check())
            await asyncio.sleep(_LEAST_SECONDS)
            pause = _CHECK_SECONDS if self._away_since is None else _CHECK_AWAY_SECONDS
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._woken.wait()

    def _note(self, event: str, fields: dict[str, Any]) -> None:
        self._failures += 1
        self._unlogged[event] += 1
        self._newest[event] = fields
        if self._away_since is None:
            self._woken.set()

    def _did_not_answer(self, failure: str, now: float) -> None:
        if self._away_since is None:
            self._away_since = now
            self._interruptions += 1
        self._unlogged.clear()  # this is why
        self._told = {why: at for why, at in self._told.items() if now - at < self._remind}
        if failure in self._told or len(self._told) >= _MOST_REASONS:
            return
        self._reported_at = self._told[failure] = now
        still = self._reported_since is not None
        if not still:
            self._reported_since = self._away_since
        self._log(
            f"{self._name} is {'still ' if still else ''}away: {self._consequence}.",
            Kind.DEPENDENCY_AWAY,
            now,
            error=failure,
        )

    def _answered(self, now: float) -> None:
        if self._away_since is not None:
            self._answered_at = now
        self._away_since = None
        reported = self._reported_since is not None
        # Where it comes and goes, only the first pair of lines in a minute is logged at once.
        if reported or (self._interruptions and now - self._reported_at >= self._remind):
            self._log(f"{self._name} is back.", Kind.DEPENDENCY_BACK, now)
            if not reported:
                self._reported_at = now
                self._told = dict.fromkeys(self._told, now)
            self._reported_since = None
            self._interruptions = self._failures = 0
        if now - self._answered_at < self._remind:
            self._unlogged.clear()  # it was away a moment ago
        for event in list(self._unlogged):
            if now - self._logged_at.get(event, now - self._remind) >= self._remind:
                self._logged_at[event] = now
                log.warning(event, count=self._unlogged.pop(event), **self._newest[event])
        if not self._interruptions:
            self._failures = 0

    def _log(self, event: str, kind: Kind, now: float, **fields: Any) -> None:
        since = now if self._reported_since is None else self._reported_since
        log.warning(
            event,
            kind=kind,
            dependency=self._name.removeprefix("The ").lower(),
            away_seconds=round(now - since, 1),
            interruptions=self._interruptions,
            failed_requests=self._failures,
            **fields,
        )


TEMPORAL: Final = OutageLog(
    "Temporal",
    consequence="events are accepted, and their deliveries wait in the database",
)
DATABASE: Final = OutageLog(
    "The database",
    consequence="requests are answered with 503, and deliveries wait",
)

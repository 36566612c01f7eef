"""The relay: drains an outbox table into Hookfast.

A batch is one transaction: take the turn, claim rows, send them, record the results, commit. The
rows stay locked while the request runs. If the relay dies, PostgreSQL rolls the transaction back
and the rows are free at once, for this relay's successor or another one. Those that Hookfast had
taken already are sent again with the same idempotency keys, and Hookfast answers with the same
events. So each committed row becomes exactly one event, as long as it is sent again before
Hookfast forgets its key (30 days by default, `HOOKFAST_IDEMPOTENCY_RETENTION`).

Order: unless `parallel`, relays of one table take turns, by an advisory lock that lasts as long as
the transaction, and each sends the lowest ids first. So what was inserted after something else was
committed is sent after it. While a tenant's rows are postponed, all of them wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum, auto
from typing import Any

from hookfast_client.errors import ApiError, HookfastError
from hookfast_client.outbox.connection import DatabaseAway, connected, transaction
from hookfast_client.outbox.observer import Batch, Observer, RejectedRow
from hookfast_client.outbox.queue import ClaimedRow, Queue
from hookfast_client.outbox.sending import (
    BatchRejected,
    Post,
    Postponed,
    Rejected,
    Result,
    Sent,
    Unprocessed,
    send,
)
from hookfast_client.retry import backoff

MAX_ROWS = 1_000
"""Most events of one request, which is Hookfast's limit."""
_DATA_BYTES = 900_000  # proxies often accept 1 MiB; the rest is for keys, types and tenants
_FIGURES_SECONDS = 5.0
_DELETE_SECONDS = 60.0
_DELETE_ROWS = 1_000
_LONGEST_RETRY_AFTER = 60.0
_DENIED = frozenset({401, 403})


class _Next(Enum):
    """What follows a batch."""

    BATCH = auto()  # there may be more rows that can be sent now
    NOTHING = auto()  # no row can be sent now, or another relay has the turn
    PAUSE = auto()  # rows wait until Hookfast can take them


class KeyDenied(Exception):
    """Hookfast does not accept the relay's API key. The rows stay as they are."""


@dataclass(slots=True)
class _Backoff:
    """Pauses after failures, each longer than the one before."""

    until: float = 0.0
    failures: int = 0

    def begin(self, *, at_least: float = 0.0) -> float:
        """Begin a pause, and return its length in seconds."""
        seconds = max(at_least, backoff(self.failures))
        self.failures += 1
        self.until = time.monotonic() + seconds
        return seconds

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.until


@dataclass(slots=True)
class _Every:
    """Whether something that is done every so many seconds is due."""

    seconds: float
    _at: float = 0.0

    def is_due(self) -> bool:
        """Whether it is due; then it is due again only after `seconds`."""
        now = time.monotonic()
        if now < self._at:
            return False
        self._at = now + self.seconds
        return True


@dataclass(slots=True, kw_only=True)
class Relay:
    """Drains one outbox table. `keep` is how long rows are kept after they were sent; with zero
    they are deleted at once. The table is looked at whenever PostgreSQL notifies, and every
    `poll_seconds`. With `parallel`, relays of one table work at the same time and keep no order."""

    database_url: str = field(repr=False)
    queue: Queue
    post: Post
    rows: int = 500
    keep: timedelta = timedelta(0)
    poll_seconds: float = 1.0
    parallel: bool = False
    observer: Observer = field(default_factory=Observer)
    _wake: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _stopping: bool = field(default=False, init=False)
    _at_once: int = field(init=False)
    _api: _Backoff = field(default_factory=_Backoff, init=False)
    _tenants: dict[str, _Backoff] = field(default_factory=dict, init=False)
    _figures_due: _Every = field(default_factory=lambda: _Every(_FIGURES_SECONDS), init=False)
    _delete_due: _Every = field(default_factory=lambda: _Every(_DELETE_SECONDS), init=False)

    def __post_init__(self) -> None:
        if not 1 <= self.rows <= MAX_ROWS or self.poll_seconds <= 0:
            raise ValueError(f"a batch has 1 to {MAX_ROWS} rows, and the poll interval is positive")
        self._at_once = self.rows

    def stop(self) -> None:
        """Let `run` return after the batch that is being sent."""
        self._stopping = True
        self._wake.set()

    async def run(self, *, until_empty: bool = False) -> None:
        """Relay until `stop`, through outages of the database and of Hookfast; with `until_empty`,
        until no row is left that could be sent now.

        Raises DatabaseUnusable and KeyDenied, about which somebody has to do something.
        """
        database = _Backoff()
        while not self._stopping:
            try:
                async with connected(self.database_url, on_wake=self._wake.set) as connection:
                    self.observer.started(table=self.queue.table.text)
                    database = _Backoff()
                    await self._relay(connection, until_empty=until_empty)
                    return
            except DatabaseAway as error:
                seconds = database.begin()
                self.observer.database_away(str(error), seconds=seconds)
                await self._pause(seconds, ends_early=False)

    async def _relay(self, connection: Any, *, until_empty: bool) -> None:
        while not self._stopping:
            self._wake.clear()
            following = _Next.PAUSE
            if self._api.is_over:
                following = await self._relay_batch(connection)
            await self._do_chores(connection)
            if following is _Next.BATCH:
                continue
            if until_empty and following is _Next.NOTHING:
                await self._read_figures(connection)
                return
            await self._pause(self.poll_seconds, ends_early=True)

    async def _relay_batch(self, connection: Any) -> _Next:
        """Relay the oldest rows."""
        began = time.monotonic()
        try:
            async with transaction(connection):
                if not (self.parallel or await self.queue.take_turn(connection)):
                    return _Next.NOTHING
                rows = await self.queue.claim(
                    connection,
                    rows=self._at_once,
                    data_bytes=_DATA_BYTES,
                    without_tenants=self._postponed_tenants(),
                )
                if not rows:
                    return _Next.NOTHING
                results = list(zip(rows, await send(self.post, rows), strict=True))
                await self._record(connection, results)
        except BatchRejected:
            # fewer at once, until the row that is the cause is alone and is rejected itself
            self._at_once = max(1, len(rows) // 2)
            return _Next.BATCH
        except HookfastError as error:
            self._api_failed(error)
            return _Next.PAUSE
        self._report(results, took=time.monotonic() - began)
        first = results[0][1]
        if isinstance(first, Unprocessed):
            self._begin_pause(first.code)
            return _Next.PAUSE
        self._api = _Backoff()
        if any(isinstance(result, Sent) for _, result in results):
            self._at_once = min(2 * self._at_once, self.rows)
        return _Next.BATCH

    async def _record(self, connection: Any, results: list[tuple[ClaimedRow, Result]]) -> None:
        sent = {row.id: result.event_id for row, result in results if isinstance(result, Sent)}
        if sent:
            await self.queue.mark_sent(connection, sent, keep=bool(self.keep))
        rejected = {row.id: result.text for row, result in results if isinstance(result, Rejected)}
        if rejected:
            await self.queue.mark_rejected(connection, rejected)

    def _report(self, results: list[tuple[ClaimedRow, Result]], *, took: float) -> None:
        """Report what is committed, and remember which tenants have to wait."""
        sent = [result for _, result in results if isinstance(result, Sent)]
        rejected = [(row, result) for row, result in results if isinstance(result, Rejected)]
        waiting = {row.tenant: result for row, result in results if isinstance(result, Postponed)}
        self.observer.batch(
            Batch(
                sent=len(sent),
                replayed=sum(result.replayed for result in sent),
                rejected=len(rejected),
                postponed=len(results) - len(sent) - len(rejected),
                seconds=took,
            )
        )
        for row, why in rejected:
            self.observer.rejected(
                RejectedRow(id=row.id, key=row.key, type=row.type, code=why.code, detail=why.detail)
            )
        for tenant in {row.tenant for row, _ in results} - waiting.keys():
            self._tenants.pop(tenant, None)
        for tenant, reason in waiting.items():
            seconds = self._tenants.setdefault(tenant, _Backoff()).begin()
            self.observer.postponed(tenant, reason.code, seconds=seconds)

    def _postponed_tenants(self) -> list[str]:
        return [tenant for tenant, backoff in self._tenants.items() if not backoff.is_over]

    def _api_failed(self, error: HookfastError) -> None:
        """Begin a pause. Raises KeyDenied if no pause helps."""
        if isinstance(error, ApiError) and error.status in _DENIED:
            raise KeyDenied(f"Hookfast does not accept the API key: {error.detail}") from None
        after = (error.retry_after if isinstance(error, ApiError) else None) or 0.0
        name = error.code if isinstance(error, ApiError) else type(error).__name__
        self._begin_pause(name, at_least=min(after, _LONGEST_RETRY_AFTER))

    def _begin_pause(self, reason: str, *, at_least: float = 0.0) -> None:
        seconds = self._api.begin(at_least=at_least)
        self.observer.api_away(reason, seconds=seconds)

    async def _do_chores(self, connection: Any) -> None:
        """Read the table's state, and delete old rows, if one of them is due."""
        if self._figures_due.is_due():
            await self._read_figures(connection)
        if self._delete_due.is_due():
            deleted = _DELETE_ROWS
            while deleted == _DELETE_ROWS and not self._stopping:
                async with transaction(connection):
                    deleted = await self.queue.delete_sent(
                        connection, age=self.keep, rows=_DELETE_ROWS
                    )

    async def _read_figures(self, connection: Any) -> None:
        async with transaction(connection):
            figures = await self.queue.figures(connection)
        self.observer.figures(figures)

    async def _pause(self, seconds: float, *, ends_early: bool) -> None:
        """Wait, at most until `stop`; with `ends_early`, until the next notification."""
        until = time.monotonic() + seconds
        while not self._stopping and (left := until - time.monotonic()) > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._wake.wait()
            if ends_early:
                return
            if not self._stopping:
                self._wake.clear()

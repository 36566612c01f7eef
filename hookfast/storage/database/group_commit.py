"""Group commit: while one transaction runs, new items gather for the next.

Under load many items share a commit (an fsync on SQLite, a round trip on PostgreSQL) and the
look-ups before it; at low load nothing waits. A caller gets its result once the transaction with
its item is committed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import Generic, TypeVar

from hookfast.errors import Unavailable
from hookfast.storage.database.availability import is_away

Item = TypeVar("Item")
Result = TypeVar("Result")

LONGEST_SECONDS = 60.0
"""Cancel a transaction after this long. Each statement has its own limit, so this is for causes
that nobody foresaw; without it, such a transaction would be the last one of its process."""


class GroupCommit(Generic[Item, Result]):
    """Commits items in groups; one per process and kind of item. `commit` stores some items
    together and returns one result for each, in order; it may be called again with the items of a
    group that failed.

    A group has at most `most` items, whose sizes, by `size`, add up to at most `most_size`. With
    `patience`, callers are asked to retry after this many seconds, and items that no caller waits
    for any more are dropped if they have not begun, so that they do not pile up behind a stuck
    transaction.
    """

    def __init__(
        self,
        commit: Callable[[list[Item]], Awaitable[Sequence[Result]]],
        *,
        name: str,
        most: int,
        size: Callable[[Item], int] = lambda _: 0,
        most_size: int = 0,
        patience: float | None = None,
    ) -> None:
        self._commit = commit
        self._name = name
        self._most = most
        self._size = size
        self._most_size = most_size
        self._patience = patience
        self._waiting: dict[asyncio.Future[Result], Item] = {}
        self._flusher: asyncio.Task[None] | None = None

    def begin(self, item: Item) -> asyncio.Future[Result]:
        """Queue an item and return a future of its result. It fails with what `commit` raises for
        this item alone, or for all items when the database is away."""
        committed: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting[committed] = item
        if self._flusher is None:
            self._flusher = asyncio.create_task(self._flush(), name=self._name)
        return committed

    async def add(self, item: Item) -> Result:
        """Queue an item and wait for its result. Raises what the future of `begin` fails with, and
        Unavailable when `patience` is over or the transaction took too long: whether the item was
        committed is then unknown."""
        committed = self.begin(item)
        try:
            async with asyncio.timeout(self._patience):
                return await committed
        except TimeoutError:
            raise _busy() from None
        finally:
            if self._patience is not None:
                self.give_up(committed)

    def give_up(self, committed: asyncio.Future[Result]) -> None:
        """Drop an item that no caller waits for any more, unless its transaction has begun. Behind
        a stuck transaction, items of callers that retry would otherwise fill up the memory."""
        self._waiting.pop(committed, None)
        committed.cancel()

    async def close(self) -> None:
        """Wait for the items that are being committed."""
        if self._flusher is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await self._flusher

    async def _flush(self) -> None:
        try:
            while self._waiting:
                await self._commit_or_fail(self._next_group())
        finally:
            self._flusher = None

    def _next_group(self) -> list[tuple[Item, asyncio.Future[Result]]]:
        size = number = 0
        for item in islice(self._waiting.values(), self._most):
            size += self._size(item)
            if number and size > self._most_size:
                break
            number += 1
        chosen = list(islice(self._waiting, number))
        group = [(self._waiting.pop(committed), committed) for committed in chosen]
        return [pair for pair in group if self._patience is None or not pair[1].done()]

    async def _commit_or_fail(self, group: Sequence[tuple[Item, asyncio.Future[Result]]]) -> None:
        if not group:
            return
        try:
            async with asyncio.timeout(LONGEST_SECONDS):
                results = await self._commit([item for item, _ in group])
        except Exception as error:
            timed_out = isinstance(error, TimeoutError)
            if len(group) > 1 and not (timed_out or is_away(error)):
                for single in group:  # an item that cannot be stored must not fail the others
                    await self._commit_or_fail([single])
                return
            for _, committed in group:
                if not committed.done():
                    committed.set_exception(_busy() if timed_out else error)
        else:
            for (_, committed), result in zip(group, results, strict=True):
                if not committed.done():
                    committed.set_result(result)


def _busy() -> Unavailable:
    return Unavailable("The database is busy; send the request again.")

"""Group commit: which items are committed together, and how failures affect the others."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from hookfast.errors import Unavailable
from hookfast.storage.database import group_commit
from hookfast.storage.database.availability import connection_lost
from hookfast.storage.database.group_commit import GroupCommit

pytestmark = pytest.mark.anyio

Commit = Callable[[list[str]], Awaitable[Sequence[str]]]


class Log:
    """A store that needs a turn of the event loop per group, and raises ValueError for `bad`."""

    def __init__(self) -> None:
        self.groups: list[str] = []
        self.away: Exception | None = None

    async def commit(self, items: list[str]) -> Sequence[str]:
        await asyncio.sleep(0)
        self.groups.append("".join(items))
        if self.away is not None:
            raise self.away
        if "bad" in items:
            raise ValueError("bad")
        return [item.upper() for item in items]


class Item:
    """An object that can be weakly referenced."""


def group_of(log: Log, **options: Any) -> GroupCommit[str, str]:
    return GroupCommit(log.commit, name="test", **{"most": 3, **options})


async def test_items_that_arrive_during_a_commit_are_committed_together_in_the_next() -> None:
    log = Log()
    group = group_of(log)
    results = await asyncio.gather(*(group.add(item) for item in "abcdefg"))
    assert results == list("ABCDEFG")
    assert log.groups == ["abc", "def", "g"]
    assert await group.add("h") == "H"  # an idle group commits again


async def test_a_group_has_a_size_limit_which_a_single_item_may_exceed() -> None:
    log = Log()
    group = group_of(log, size=len, most_size=4)
    await asyncio.gather(*(group.add(item) for item in ("aaa", "b", "cc", "dddddd", "e")))
    assert log.groups == ["aaab", "cc", "dddddd", "e"]


async def test_an_item_that_cannot_be_stored_does_not_fail_the_others_of_its_group() -> None:
    log = Log()
    group = group_of(log)
    results = await asyncio.gather(
        *(group.add(item) for item in ("a", "bad", "c")), return_exceptions=True
    )
    assert [results[0], results[2]] == ["A", "C"]
    assert isinstance(results[1], ValueError)
    assert log.groups == ["abadc", "a", "bad", "c"]


async def test_a_connection_error_fails_the_whole_group_without_further_tries() -> None:
    log = Log()
    log.away = connection_lost(ConnectionRefusedError())
    group = group_of(log)
    results = await asyncio.gather(*(group.add(item) for item in "abc"), return_exceptions=True)
    assert results == [log.away] * 3
    assert log.groups == ["abc"]
    log.away = None
    assert await group.add("d") == "D"


@pytest.mark.parametrize(("patience", "second"), [(60.0, "c"), (None, "bc")])
async def test_with_patience_items_of_cancelled_callers_are_not_committed(
    patience: float | None, second: str
) -> None:
    log = Log()
    group = group_of(log, most=2, patience=patience)
    first = asyncio.create_task(group.add("a"))
    await asyncio.sleep(0)
    later = [asyncio.create_task(group.add(item)) for item in "bc"]
    await asyncio.sleep(0)
    later[0].cancel()
    assert await first == "A"
    assert await later[1] == "C"
    assert log.groups == ["a", second]


async def test_item_that_is_unavailable_does_not_fail_the_others() -> None:
    async def commit(items: list[str]) -> Sequence[str]:
        if "busy" in items:
            raise Unavailable("This key is being claimed; send the request again.")
        return items

    group: GroupCommit[str, str] = GroupCommit(commit, name="test", most=3)
    results = await asyncio.gather(
        *(group.add(item) for item in ("a", "busy", "c")), return_exceptions=True
    )
    assert (results[0], type(results[1]), results[2]) == ("a", Unavailable, "c")


async def test_callers_behind_a_stuck_transaction_get_unavailable() -> None:
    stuck = asyncio.Event()
    begun: list[list[str]] = []

    async def commit(items: list[str]) -> Sequence[str]:
        begun.append(items)
        await stuck.wait()
        return items

    group: GroupCommit[str, str] = GroupCommit(commit, name="test", most=3, patience=0.05)
    results = await asyncio.gather(*(group.add(item) for item in "abcd"), return_exceptions=True)
    assert [type(one) for one in results] == [Unavailable] * 4
    stuck.set()
    await group.close()
    assert begun == [["a", "b", "c"]]  # the item that was not begun is never committed
    assert await group.add("e") == "e"


async def test_a_transaction_that_does_not_end_is_cancelled_and_the_next_one_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_commit, "LONGEST_SECONDS", 0.05)
    log = Log()

    async def commit(items: list[str]) -> Sequence[str]:
        if "stuck" in items:
            await asyncio.Event().wait()
        return await log.commit(items)

    group: GroupCommit[str, str] = GroupCommit(commit, name="test", most=2)
    results = await asyncio.gather(
        *(group.add(item) for item in ("a", "stuck", "c")), return_exceptions=True
    )
    assert [type(one) for one in results[:2]] == [Unavailable] * 2
    assert results[2] == "C"


async def test_closing_waits_for_all_added_items() -> None:
    log = Log()
    group = group_of(log)
    adding = [asyncio.create_task(group.add(item)) for item in "abcde"]
    await asyncio.sleep(0)
    await group.close()
    assert log.groups == ["abc", "de"]
    assert await asyncio.gather(*adding) == list("ABCDE")


async def test_items_of_callers_that_got_unavailable_are_not_kept_in_memory() -> None:
    stuck = asyncio.Event()

    async def commit(items: list[Item]) -> Sequence[str]:
        await stuck.wait()
        return ["" for _ in items]

    group: GroupCommit[Item, str] = GroupCommit(commit, name="test", most=2, patience=0.02)
    first = [asyncio.create_task(group.add(Item())) for _ in range(2)]
    await asyncio.sleep(0)
    later = [Item() for _ in range(10)]
    living = weakref.WeakSet(later)
    results = await asyncio.gather(*map(group.add, later), *first, return_exceptions=True)
    assert [type(one) for one in results] == [Unavailable] * 12
    del later, results
    await asyncio.sleep(0)  # the event loop drops its references
    gc.collect()
    assert not living
    stuck.set()
    await group.close()

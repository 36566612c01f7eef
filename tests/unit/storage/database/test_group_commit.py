"""What is committed together, and what becomes of those with whom it fails."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from hookfast.errors import Unavailable
from hookfast.storage.database import group_commit
from hookfast.storage.database.group_commit import GroupCommit

pytestmark = pytest.mark.anyio

Commit = Callable[[list[str]], Awaitable[Sequence[str]]]


class Log:
    """A store that takes a turn of the loop for each group, and refuses what is `bad`."""

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


class Kept:
    """Something that can be asked whether it is still kept."""


def group_of(log: Log, **options: Any) -> GroupCommit[str, str]:
    return GroupCommit(log.commit, name="test", **{"most": 3, **options})


async def test_what_comes_during_a_transaction_is_committed_together_in_the_next() -> None:
    log = Log()
    group = group_of(log)
    results = await asyncio.gather(*(group.add(item) for item in "abcdefg"))
    assert results == list("ABCDEFG")
    assert log.groups == ["abc", "def", "g"]
    assert await group.add("h") == "H"  # and later, at rest, it begins anew


async def test_a_group_is_only_so_large_but_takes_one_that_is_larger() -> None:
    log = Log()
    group = group_of(log, size=len, most_size=4)
    await asyncio.gather(*(group.add(item) for item in ("aaa", "b", "cc", "dddddd", "e")))
    assert log.groups == ["aaab", "cc", "dddddd", "e"]


async def test_one_that_cannot_be_stored_does_not_fail_its_neighbours() -> None:
    log = Log()
    group = group_of(log)
    results = await asyncio.gather(
        *(group.add(item) for item in ("a", "bad", "c")), return_exceptions=True
    )
    assert [results[0], results[2]] == ["A", "C"]
    assert isinstance(results[1], ValueError)
    assert log.groups == ["abadc", "a", "bad", "c"]


async def test_when_the_database_is_away_all_fail_without_asking_once_more_for_each() -> None:
    log = Log()
    log.away = ConnectionRefusedError()
    group = group_of(log)
    results = await asyncio.gather(*(group.add(item) for item in "abc"), return_exceptions=True)
    assert results == [log.away] * 3
    assert log.groups == ["abc"]
    log.away = None
    assert await group.add("d") == "D"


@pytest.mark.parametrize(("patience", "second"), [(60.0, "c"), (None, "bc")])
async def test_with_patience_what_its_caller_waits_for_no_more_is_left_out(
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


async def test_who_comes_behind_a_transaction_that_is_stuck_is_told_to_come_again() -> None:
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
    assert begun == [["a", "b", "c"]]  # what was not begun is not done behind their backs
    assert await group.add("e") == "e"


async def test_a_transaction_without_an_end_is_given_up_and_the_next_one_made(
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


async def test_closing_waits_for_all_that_was_added() -> None:
    log = Log()
    group = group_of(log)
    adding = [asyncio.create_task(group.add(item)) for item in "abcde"]
    await asyncio.sleep(0)
    await group.close()
    assert log.groups == ["abc", "de"]
    assert await asyncio.gather(*adding) == list("ABCDE")


async def test_nothing_is_kept_of_those_who_were_told_to_come_again() -> None:
    stuck = asyncio.Event()

    async def commit(items: list[Kept]) -> Sequence[str]:
        await stuck.wait()
        return ["" for _ in items]

    group: GroupCommit[Kept, str] = GroupCommit(commit, name="test", most=2, patience=0.02)
    first = [asyncio.create_task(group.add(Kept())) for _ in range(2)]
    await asyncio.sleep(0)
    later = [Kept() for _ in range(10)]
    living = weakref.WeakSet(later)
    results = await asyncio.gather(*map(group.add, later), *first, return_exceptions=True)
    assert [type(one) for one in results] == [Unavailable] * 12
    del later, results
    await asyncio.sleep(0)  # the loop lets go of what it has just handed over
    gc.collect()
    assert not living
    stuck.set()
    await group.close()

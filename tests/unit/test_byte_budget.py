"""The budget for the bytes of bodies: shares, the turn, and slow claims that are dropped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import pytest

from hookfast import byte_budget
from hookfast.byte_budget import ByteBudget, Claim, NoRoom, part_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def memory() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


async def _refused(claim: Claim, size: int) -> None:
    with pytest.raises(NoRoom) as refused:
        await claim.grow(size, within=0)
    assert (refused.value.code, refused.value.retry_after) == ("overloaded", 1)


async def test_owner_may_hold_half_of_what_is_free(memory: ExitStack) -> None:
    budget = ByteBudget(600, largest=300)
    await memory.enter_context(budget.claim("body", "large")).grow(300)  # it has the turn
    for owner, share in (("a", 100), ("b", 66), ("c", 44)):
        claim = memory.enter_context(budget.claim("body", owner))
        await claim.grow(share - 10, within=0)
        await _refused(claim, 12)
        await claim.grow(10, within=0)


async def test_operator_leaves_an_eighth_free(memory: ExitStack) -> None:
    budget = ByteBudget(1_600, largest=800)
    await memory.enter_context(budget.claim("body", "large")).grow(800)
    operator = memory.enter_context(budget.claim("body"))
    await operator.grow(700, within=0)
    await _refused(operator, 1)
    await memory.enter_context(budget.claim("body", "tenant")).grow(33, within=0)


async def test_all_owners_of_a_claim_must_have_room(memory: ExitStack) -> None:
    budget = ByteBudget(200, largest=100)
    turn = memory.enter_context(budget.claim("body", "other"))
    await turn.grow(80)  # more than its share: it takes the turn
    one = memory.enter_context(budget.claim("body", "tenant", "endpoint 1"))
    await one.grow(33)
    await _refused(memory.enter_context(budget.claim("body", "tenant", "endpoint 2")), 20)
    await memory.enter_context(budget.claim("body", "tenant 2", "endpoint 3")).grow(20, within=0)


async def test_part_of_an_owner_leaves_a_part_of_the_share_to_others(memory: ExitStack) -> None:
    """One site that holds all that it may leaves room to another one, without waiting."""
    budget = ByteBudget(1_400, largest=700)
    turn = memory.enter_context(budget.claim("body", "other"))
    await turn.grow(700)
    for site, share in (("a", 100), ("b", 57), ("c", 34)):
        claim = memory.enter_context(budget.claim("body", "all", part_of("all", site)))
        await claim.grow(share - 10, within=0)
        await _refused(claim, 12)
        await claim.grow(8, within=0)
    await memory.enter_context(budget.claim("body", "tenant")).grow(160, within=0)


@pytest.mark.parametrize("owners", range(1, 20))
async def test_something_stays_free_however_many_owners_there_are(
    memory: ExitStack, owners: int
) -> None:
    budget = ByteBudget(2_000_000, largest=1_000_000)
    turn = memory.enter_context(budget.claim("body", "large"))
    await turn.grow(1_000_000)
    for number in range(owners):
        claim = memory.enter_context(budget.claim("body", f"tenant {number}"))
        for size in (100_000, 10_000, 1_000, 100, 10):
            with suppress(NoRoom):
                for _ in range(10):
                    await claim.grow(size, within=0)
        assert claim.size > 0
    newcomer = memory.enter_context(budget.claim("body", "newcomer"))
    await newcomer.grow(int(1_000_000 * (2 / 3) ** owners / 3), within=0)
    assert budget.used <= 2_000_000


async def test_largest_body_finds_room_beside_full_shares(memory: ExitStack) -> None:
    budget = ByteBudget(100, largest=500)
    for owner in "abcd":
        claim = memory.enter_context(budget.claim("body", owner))
        await claim.grow(8)
    large = memory.enter_context(budget.claim("body", "e"))
    for _ in range(50):
        await large.grow(10, within=0)
    assert budget.used <= 500 + 50


async def test_bodies_that_grow_side_by_side_all_complete() -> None:
    """Each holds a part and waits for more: without the turn, they would wait for each other."""
    budget = ByteBudget(1_000, largest=500)
    completed = []
    most = 0

    async def arrive(name: str) -> None:
        nonlocal most
        with budget.claim("body", name) as claim:
            for _ in range(10):
                await claim.grow(40)
                most = max(most, budget.used)
                await asyncio.sleep(0)
            completed.append(name)

    await asyncio.gather(*(arrive(f"tenant {number}") for number in range(20)))
    assert len(completed) == 20
    assert most <= 1_000
    assert budget.used == 0


@pytest.mark.parametrize(
    ("owners", "held"),
    [
        (lambda name: [name], 30),
        (lambda name: ["all", name], 30),
        (lambda name: ["all", part_of("all", name)], 10),
    ],
    ids=["owners", "other owners if all share one", "parts of an owner"],
)
async def test_turn_goes_to_the_owner_who_holds_least(
    memory: ExitStack, owners: Callable[[str], list[str]], held: int
) -> None:
    budget = ByteBudget(200, largest=100)
    first = ExitStack()
    await first.enter_context(budget.claim("body", "first")).grow(90)
    await memory.enter_context(budget.claim("body", *owners("greedy"))).grow(held)
    order: list[str] = []

    async def wait(name: str) -> None:
        with budget.claim("body", *owners(name)) as claim:
            await claim.grow(60)
            order.append(name)

    waiting = [asyncio.create_task(wait(name)) for name in ("greedy", "greedy", "modest")]
    await asyncio.sleep(0)
    first.close()
    await asyncio.gather(*waiting)
    assert order[0] == "modest"


@pytest.mark.parametrize("left", [0, 20])
async def test_turn_ends_with_what_is_beyond_the_share_of_a_claim_that_lives_on(
    memory: ExitStack, left: int
) -> None:
    budget = ByteBudget(200, largest=100)
    stream = memory.enter_context(budget.claim("stream", "stream"))
    await stream.grow(90)
    stream.shrink(90 - left)
    assert budget.used == left
    await memory.enter_context(budget.claim("body", "other")).grow(100, within=0)
    assert budget.used == left + 100


async def test_turn_stays_with_a_claim_that_holds_more_than_its_share(memory: ExitStack) -> None:
    budget = ByteBudget(200, largest=100)
    stream = memory.enter_context(budget.claim("stream", "stream"))
    await stream.grow(90)
    stream.shrink(10)
    await _refused(memory.enter_context(budget.claim("body", "other")), 100)


async def test_claim_that_waits_too_long_is_refused_and_leaves_nothing(memory: ExitStack) -> None:
    budget = ByteBudget(200, largest=100)
    await memory.enter_context(budget.claim("body", "first")).grow(90)
    with budget.claim("body", "second") as claim:
        await claim.grow(10)
        with pytest.raises(NoRoom):
            await claim.grow(90, within=0.01)
        assert claim.size == 10
    assert budget.used == 90


async def test_cancelled_wait_leaves_nothing(memory: ExitStack) -> None:
    budget = ByteBudget(200, largest=100)
    first = ExitStack()
    await first.enter_context(budget.claim("body", "first")).grow(90)

    async def wait() -> None:
        with budget.claim("body", "second") as claim:
            await claim.grow(90)

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    first.close()
    assert budget.used == 0
    await memory.enter_context(budget.claim("body", "third")).grow(100, within=0)


async def test_of_too_much_that_waits_in_memory_what_needs_most_is_refused(
    memory: ExitStack,
) -> None:
    budget = ByteBudget(1_600, largest=800)
    first = ExitStack()
    await first.enter_context(budget.claim("body", "first")).grow(790)
    waiting = {}
    for expected in (400, 500, 300):
        claim = memory.enter_context(budget.claim("body", "other", expected=expected))
        claim.count(250)  # no share is free
        waiting[expected] = asyncio.create_task(claim.grow(50, loaded=True))
        await asyncio.sleep(0)
    await asyncio.wait([waiting[500]])
    assert isinstance(waiting[500].exception(), NoRoom)
    assert not waiting[400].done()
    assert not waiting[300].done()
    for task in waiting.values():
        task.cancel()


async def test_of_those_that_wait_the_shortest_gets_room_first(memory: ExitStack) -> None:
    budget = ByteBudget(200, largest=100)
    turn, share = ExitStack(), ExitStack()
    await turn.enter_context(budget.claim("body", "turn")).grow(90)
    await share.enter_context(budget.claim("body", "a")).grow(30)
    order = []

    async def wait(expected: int) -> None:
        with budget.claim("body", "a", expected=expected) as claim:
            await claim.grow(20)
            order.append(expected)
            await asyncio.sleep(0)

    waiting = [asyncio.create_task(wait(expected)) for expected in (900, 20, 400)]
    await asyncio.sleep(0)
    share.close()
    await asyncio.gather(*waiting)
    assert order == [20, 400, 900]
    turn.close()


async def _with_slow(
    budget: ByteBudget, memory: ExitStack, owner: str, size: int, dropped: list[str]
) -> Claim:
    holding = ExitStack()

    def drop() -> None:
        dropped.append(owner)
        holding.close()

    claim = holding.enter_context(budget.claim("body", owner, on_drop=drop))
    memory.callback(holding.close)
    await claim.grow(size)
    claim.paused(-60)
    return claim


async def test_slow_claims_are_dropped_for_one_that_waits(memory: ExitStack) -> None:
    budget = ByteBudget(2_000, largest=1_000)
    dropped: list[str] = []
    for owner, size in (("a", 900), ("b", 330), ("c", 220), ("d", 140)):
        await _with_slow(budget, memory, owner, size, dropped)
    newcomer = memory.enter_context(budget.claim("body", "newcomer"))
    await newcomer.grow(300)
    assert dropped[0] == "a"  # the largest first
    assert newcomer.size == 300


async def test_slow_claims_of_the_same_owner_go_first(memory: ExitStack) -> None:
    budget = ByteBudget(2_000, largest=1_000)
    dropped: list[str] = []
    for owner, size in (("large", 900), ("other", 330), ("mine", 200)):
        await _with_slow(budget, memory, owner, size, dropped)
    await memory.enter_context(budget.claim("body", "mine")).grow(200)
    assert dropped == ["mine"]


async def test_claims_that_move_or_cannot_be_dropped_stay(memory: ExitStack) -> None:
    budget = ByteBudget(2_000, largest=1_000)
    dropped: list[str] = []
    fast = await _with_slow(budget, memory, "fast", 900, dropped)
    fast.move(1)
    kept = memory.enter_context(budget.claim("body", "kept"))
    await kept.grow(330)
    kept.paused(-60)
    with pytest.raises(NoRoom):
        await memory.enter_context(budget.claim("body", "newcomer")).grow(900, within=0.01)
    assert dropped == []


async def test_many_that_wait_look_through_many_claims_once(
    memory: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(byte_budget, "_LOOK_SECONDS", 60.0)
    budget = ByteBudget(2_000, largest=1_000)
    looks = 0

    def is_slow(claim: Claim, now: float) -> bool:
        nonlocal looks
        looks += 1
        return False

    monkeypatch.setattr(Claim, "is_slow", is_slow)
    others = [
        memory.enter_context(budget.claim("body", "others", on_drop=lambda: None))
        for _ in range(100)
    ]
    for claim in others:
        claim.count(10)
    await memory.enter_context(budget.claim("body", "turn")).grow(900)

    async def wait() -> None:
        with budget.claim("body", "waiting") as claim:
            await claim.grow(900)

    waiting = [asyncio.create_task(wait()) for _ in range(20)]
    await asyncio.sleep(0)
    assert looks == 100
    others[0].shrink(1)  # no room for any of them
    for _ in range(3):
        await asyncio.sleep(0)
    assert looks == 100
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)

"""How owners, such as endpoints in the fast lane, share slots."""

from __future__ import annotations

from contextlib import ExitStack

from hookfast.slots import Slots


def entered(lane: Slots, stack: ExitStack, endpoint: str, tries: int) -> int:
    return sum(stack.enter_context(lane.enter(endpoint)) for _ in range(tries))


def test_one_endpoint_takes_at_most_a_third_of_the_slots() -> None:
    with ExitStack() as stack:
        # the 100th enters beside 201 free slots; the 101st would need 100 < 200 / 2
        assert entered(Slots(300), stack, "slow", 300) == 100


def test_slow_endpoints_share_the_slots_and_leave_some_free() -> None:
    lane = Slots(300)
    with ExitStack() as stack:
        taken = [entered(lane, stack, f"slow-{number}", 300) for number in range(10)]
        assert taken == [100, 67, 45, 30, 20, 13, 9, 6, 4, 2]
        assert entered(lane, stack, "healthy", 1) == 1


def test_owner_takes_at_most_its_share_and_all_together_no_more_than_there_are() -> None:
    slots = Slots(4, most=2)
    with ExitStack() as stack:
        assert [entered(slots, stack, owner, 3) for owner in "aa"] == [2, 0]
        assert [entered(slots, stack, owner, 1) for owner in "bcd"] == [1, 1, 0]


def test_slot_is_free_after_the_block() -> None:
    lane = Slots(2)
    for _ in range(3):
        with lane.enter("one") as first, lane.enter("one") as second:
            assert (first, second) == (True, False)


def test_failing_block_frees_its_slot() -> None:
    lane = Slots(1)
    for _ in range(2):
        try:
            with lane.enter("one") as there_is_room:
                assert there_is_room
                raise OSError
        except OSError:
            pass

"""A batch does what its tables say, and in random walks every delivery leaves it once, in time."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from hookfast.deliveries import batch_life
from hookfast.deliveries.batch_life import (
    CHECK_SECONDS,
    LONGEST_SECONDS,
    NEXT_SECONDS,
    OPEN_SECONDS,
    Attempt,
    BatchLife,
    End,
    GiveUp,
    Joining,
    Leave,
    Phase,
    Stage,
    Step,
    Wait,
)
from hookfast.deliveries.batch_messages import MOST, PER_ENDPOINT

ONE = "dlv_0"


class Batch:
    """A batch and the time. `steps` are those that it has returned, without waiting."""

    def __init__(self, count: int = 1, *, most: int = MOST, endpoint: str = "ep_1") -> None:
        self.now = 0.0
        self.steps: list[Step] = []
        self.names = (f"dlv_{number}" for number in range(10_000))
        self.life = BatchLife([self.new(endpoint) for _ in range(count)], most=most)

    def new(self, endpoint: str = "ep_1", *, until: float = 20.0) -> Joining:
        return Joining(next(self.names), endpoint, until)

    def step(self) -> float:
        """Do what is to be done now. Return until when the batch waits; 0 if it has ended."""
        while True:
            match self.life.next_step(self.now):
                case Wait(until):
                    assert until > self.now
                    return until
                case End():
                    return 0.0
                case step:
                    self.steps.append(step)

    def run(self, until: float) -> None:
        """Let time pass, and step whenever the batch asks for it."""
        while (due := self.step()) and due <= until:
            self.now = due
        self.now = until
        self.step()

    def open(self) -> None:
        self.life.opened(self.now)
        self.step()

    def request(self, delivery_id: str) -> None:
        assert self.life.begin(delivery_id, self.now, needs=7.0)


def table(title: str) -> list[tuple[str, str, str]]:
    """Return the fact, the column and the text of every cell of the table with this column in the
    module's docstring."""
    lines = iter((batch_life.__doc__ or "").splitlines())
    columns = next(line.split()[1:] for line in lines if title in line.split()[1:])
    rows = [line.split() for line in itertools.takewhile(str.strip, lines)]
    width = len(columns)
    return [
        (fact, column, cell)
        for row in rows
        for fact in _facts(" ".join(row[:-width]))
        for column, cell in zip(columns, row[-width:], strict=True)
    ]


def _facts(text: str) -> list[str]:
    return text.split(", ") if text == "given up, ended" else [text]


def in_phase(phase: str, *, most: int) -> Batch:
    """A batch of one delivery in this phase."""
    batch = Batch(most=most)
    if phase == "STARTING":
        return batch
    batch.life._most = MOST  # it would be closed at once
    batch.open()
    if phase == "RESTING":
        batch.now = 0.05
        batch.request(ONE)
        batch.run(0.3)
    batch.life._most = most
    if phase == "CLOSED":
        batch.life.stopped()
    if phase == "ENDED":
        batch.life.ended(batch.now)
    return batch


def join(batch: Batch) -> bool:
    joined = batch.life.joined([batch.new()], batch.now)
    batch.step()
    return joined


def leave(batch: Batch) -> None:
    batch.life.done(ONE)
    batch.step()


def give_up(batch: Batch) -> None:
    batch.life.given_up()
    batch.step()


def only_slow_left(batch: Batch) -> None:
    if batch.life.stage(ONE) is Stage.LOADING:
        batch.request(ONE)
    batch.run(batch.now + 0.3)


FACTS: dict[str, tuple[Callable[[Batch], object], int]] = {
    "opened": (lambda batch: batch.life.opened(batch.now), MOST),
    "opened, full": (lambda batch: batch.life.opened(batch.now), 1),
    "joined": (join, MOST),
    "joined, full": (join, 2),
    "stopped": (lambda batch: batch.life.stopped(), MOST),
    "only slow left": (only_slow_left, MOST),
    "all left": (leave, MOST),
    "open for 1 s": (lambda batch: batch.run(OPEN_SECONDS), MOST),
    "open for 5 s": (lambda batch: batch.run(LONGEST_SECONDS), MOST),
    "given up": (give_up, MOST),
    "ended": (lambda batch: batch.life.ended(batch.now), MOST),
}


@pytest.mark.parametrize(
    ("fact", "phase", "cell"), [one for one in table("STARTING") if one[2] != "–"]
)
def test_each_fact_leads_from_each_phase_as_the_table_says(
    fact: str, phase: str, cell: str
) -> None:
    apply, most = FACTS[fact]
    batch = in_phase(phase, most=most)
    assert batch.life.phase is Phase[phase]
    result = apply(batch)
    assert batch.life.phase is (Phase[phase] if cell in "· refused" else Phase[cell])
    if fact.startswith("joined"):
        assert result is (cell != "refused")


def at_stage(stage: str) -> tuple[Batch, str]:
    """A batch with a delivery at this stage, and the delivery's id. It is the last of 17 to its
    endpoint, of which one has just been requested, or the second."""
    batch = Batch(PER_ENDPOINT + 1 if stage == "WAITING" else 2)
    one = f"dlv_{PER_ENDPOINT}" if stage == "WAITING" else "dlv_1"
    batch.open()
    if stage in ("REQUESTED", "RECORDING", "BEHIND"):
        batch.request(one)
    if stage == "RECORDING":
        batch.life.answered(one)
    if stage == "BEHIND":
        batch.run(1.2)
    if stage == "LEFT":
        batch.life.done(one)
    return batch, one


def turn(batch: Batch, one: str) -> None:
    batch.life.done(ONE)
    batch.step()


def is_slow(batch: Batch, one: str) -> None:
    batch.run(batch.now + 1.2)


def endpoint_is_full(batch: Batch, one: str) -> None:
    batch.life.endpoint_full("ep_1")
    batch.step()


def given_up(batch: Batch, one: str) -> None:
    give_up(batch)


MEMBER_FACTS: dict[str, Callable[[Batch, str], object]] = {
    "turn": turn,
    "begun": lambda batch, one: batch.life.begin(one, batch.now, needs=7.0),
    "answered": lambda batch, one: batch.life.answered(one),
    "done": lambda batch, one: batch.life.done(one),
    "is slow": is_slow,
    "endpoint is full": endpoint_is_full,
    "open for 5 s": lambda batch, one: batch.run(LONGEST_SECONDS),
    "given up": given_up,
    "ended": lambda batch, one: batch.life.ended(batch.now),
}


@pytest.mark.parametrize(("fact", "stage", "cell"), table("WAITING"))
def test_each_fact_leads_from_each_stage_as_the_table_says(
    fact: str, stage: str, cell: str
) -> None:
    batch, one = at_stage(stage)
    assert batch.life.stage(one) is Stage[stage]
    if fact == "open for 5 s" and stage == "REQUESTED":
        batch.now = 4.5
        batch.life._members[one].since = 4.5  # no answer yet, but it is not slow
    MEMBER_FACTS[fact](batch, one)
    assert batch.life.stage(one) is (Stage[stage] if cell == "·" else Stage[cell])


def test_tables_have_every_phase_and_stage() -> None:
    assert {column for _, column, _ in table("STARTING")} == set(Phase.__members__)
    assert {column for _, column, _ in table("WAITING")} == set(Stage.__members__)
    assert {fact for fact, _, _ in table("STARTING")} == set(FACTS)
    assert {fact for fact, _, _ in table("WAITING")} == set(MEMBER_FACTS)


# -- room, and the batch that follows -------------------------------------------------------------


def test_finished_delivery_keeps_its_place_but_is_not_in_progress() -> None:
    """Otherwise a batch that waits for one slow receiver would keep a busy endpoint out."""
    batch = Batch(3)
    batch.open()
    batch.life.done("dlv_0")
    batch.life.done("dlv_2")
    assert batch.life.in_progress["ep_1"] == 1
    assert batch.life.room == MOST - 3


def test_next_batch_is_due_when_one_is_half_full_or_closes_soon() -> None:
    batch = Batch()
    batch.open()
    assert not batch.life.closes_soon(NEXT_SECONDS)
    assert batch.life.closes_soon(NEXT_SECONDS + 0.01)
    batch.life.joined([batch.new() for _ in range(MOST // 2)], 0.0)
    assert batch.life.closes_soon(0.0)
    assert batch.life.is_open


def test_closed_batch_waits_for_deliveries_that_are_being_leased() -> None:
    batch = Batch()
    batch.open()
    batch.life.leasing()
    batch.life.stopped()
    batch.life.done(ONE)
    assert batch.step()  # it has not ended
    assert batch.life.joined([batch.new()], batch.now)
    batch.life.leased()
    batch.step()
    batch.life.done("dlv_1")
    assert not batch.step()


def test_batch_that_another_worker_began_takes_no_deliveries() -> None:
    life = BatchLife([Joining(ONE, "ep_1")], closed=True)
    life.opened(0.0)
    assert not life.is_open
    assert life.next_step(0.0) == Attempt([ONE])
    life.done(ONE)
    assert life.next_step(0.0) == End()


# -- slow receivers, and a busy worker ------------------------------------------------------------


def test_a_hundred_deliveries_to_a_receiver_that_never_answers_leave_within_two_seconds() -> None:
    batch = Batch(MOST)
    batch.open()
    most = 0
    while due := batch.step():
        for one in batch.life.arrived:
            if batch.life.stage(one) is Stage.LOADING:
                batch.request(one)
        stages = Counter(batch.life.stage(one) for one in batch.life.arrived)
        most = max(most, stages[Stage.REQUESTED])
        batch.now = max(batch.now, due)
    left = [one for step in batch.steps if isinstance(step, Leave) for one in step.behind]
    assert left == batch.life.arrived
    assert most == PER_ENDPOINT
    assert batch.now < 2.0
    assert batch.life.took is not None  # there was room for another batch before
    assert batch.life.took < 0.5


def test_requests_to_an_endpoint_that_is_known_to_be_slow_leave_at_once() -> None:
    batch = Batch(0)
    batch.life = BatchLife([Joining(ONE, "ep_1", slow=True), Joining("dlv_1", "ep_2")])
    batch.open()
    batch.request(ONE)
    batch.request("dlv_1")
    batch.run(0.3)
    assert batch.life.stage(ONE) is Stage.BEHIND
    assert batch.life.stage("dlv_1") is Stage.REQUESTED


def test_time_in_which_the_worker_was_too_busy_does_not_count_as_slow() -> None:
    batch = Batch()
    batch.open()
    batch.request(ONE)
    for _ in range(4):  # it asks to be called every tenth of a second
        batch.now += 1.0
        batch.step()
    assert batch.life.stage(ONE) is Stage.REQUESTED
    batch.life.answered(ONE)
    assert batch.life.stage(ONE) is Stage.RECORDING


@pytest.mark.parametrize(("now", "begins"), [(13.0, True), (13.01, False)])
def test_request_begins_only_if_its_lease_lasts_for_it(now: float, begins: bool) -> None:
    batch = Batch()
    batch.open()
    batch.now = now
    assert batch.life.begin(ONE, now, needs=7.0) is begins


@pytest.mark.parametrize("how", ["given up", "ended"])
def test_request_left_behind_outlives_its_batch(how: str) -> None:
    """It may still be connecting: whether its lease lasts is asked again before its first byte."""
    batch = Batch()
    batch.open()
    batch.request(ONE)
    batch.run(1.2)
    batch.life.leased_until(ONE, 30.0)
    MEMBER_FACTS[how](batch, ONE)
    assert batch.life.fits(ONE, 28.0, 2.0)
    assert not batch.life.fits(ONE, 28.1, 2.0)


# -- random walks ---------------------------------------------------------------------------------


class Walk(Batch):
    """A batch to which anything happens in any order."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.left: Counter[str] = Counter()
        self.leases: dict[str, float] = {}
        self.most = self.random.choice([1, 20, MOST])
        super().__init__(0, most=self.most)
        first = [self.new() for _ in range(self.random.randint(0, self.most))]
        self.life = BatchLife(first, most=self.most, closed=self.random.random() < 0.1)
        self.leasing = 0
        self.ended = False

    def new(self, endpoint: str = "ep_1", *, until: float = 20.0) -> Joining:
        endpoint = f"ep_{self.random.choice([1, 1, 1, 2, 3])}"
        one = super().new(endpoint, until=self.now + self.random.choice([5.0, 20.0]))
        self.leases[one.delivery_id] = one.leased_until
        return replace(one, slow=self.random.random() < 0.1)

    def at(self, *stages: Stage) -> list[str]:
        return [one for one in self.life.arrived if self.life.stage(one) in stages]

    def move(self) -> None:
        """Let one thing happen, and see what the batch does."""
        life = self.life
        match self.random.choice(
            ["step", "step", "time", "join", "begin", "begin", "answer", "done", "lease"]
            + (["stop", "long time", "give up", "full"] if self.random.random() < 0.1 else [])
        ):
            case "time":
                self.now += self.random.random() / 5
            case "long time":
                self.now += self.random.random() * 3
            case "join":
                count = self.random.randint(1, 40)
                if life.is_open or self.leasing:
                    life.joined([self.new() for _ in range(min(count, life.room))], self.now)
            case "lease" if self.leasing and self.random.random() < 0.6:
                self.leasing -= 1
                life.leased()
            case "lease" if life.is_open:
                self.leasing += 1
                life.leasing()
            case "begin":
                for one in self.some(Stage.WAITING, Stage.LOADING, Stage.BEHIND, Stage.LEFT):
                    stage = life.stage(one)
                    if life.begin(one, self.now, needs=1.0):
                        assert stage is Stage.LOADING
                        assert self.now + 1.0 <= self.leases[one]
                        assert not life._given_up
            case "answer":
                for one in self.some(*Stage):
                    life.answered(one)
            case "done":
                for one in self.some(*Stage):
                    if life.stage(one) not in (Stage.BEHIND, Stage.LEFT):
                        self.left[one] += 1
                    life.done(one)
            case "stop":
                life.stopped()
            case "give up":
                life.given_up()
            case "full":
                life.endpoint_full(f"ep_{self.random.randint(1, 4)}")
        self.check()

    def some(self, *stages: Stage) -> list[str]:
        found = self.at(*stages)
        return self.random.sample(found, min(len(found), self.random.randint(0, 20)))

    def step(self) -> float:
        done = len(self.steps)
        due = super().step()
        for step in self.steps[done:]:
            match step:
                case Leave(behind, back):
                    self.left.update([*behind, *back])
                case GiveUp(ids):
                    self.left.update(ids)
        self.ended = not due
        return due

    def check(self) -> None:
        """Whatever happens, these hold."""
        life = self.life
        assert len(life._members) <= MOST
        requests = Counter(
            one.endpoint_id
            for one in life._members.values()
            if one.stage in (Stage.LOADING, Stage.REQUESTED)
        )
        for endpoint, count in requests.items():
            assert count <= life._turns.of(endpoint) <= PER_ENDPOINT
        in_hand = self.at(Stage.WAITING, Stage.LOADING, Stage.REQUESTED, Stage.RECORDING)
        assert life.in_progress.total() == len(in_hand)
        assert set(self.left.values()) <= {1}
        assert self.left.keys().isdisjoint(in_hand)


@pytest.mark.parametrize("seed", range(200))
def test_every_delivery_leaves_once_and_every_batch_ends(seed: int) -> None:
    walk = Walk(seed)
    if walk.life.phase is Phase.STARTING and seed % 7 == 0:
        walk.life.stopped()
    walk.open()
    for _ in range(300):
        walk.move()
        if walk.random.random() < 0.5:
            walk.step()
            walk.check()
        if walk.ended:
            break
    waits = 0
    while due := walk.step():
        walk.now, waits = max(walk.now, due), waits + 1
    walk.check()
    assert waits <= LONGEST_SECONDS / CHECK_SECONDS + 2
    assert walk.now <= LONGEST_SECONDS + 60  # the walk's own time, and then five seconds at most
    assert walk.life.phase is Phase.ENDED
    assert set(walk.left) == set(walk.life.arrived)
    assert not walk.life.joined([walk.new()], walk.now)


@pytest.mark.parametrize("seed", range(50))
def test_news_are_all_that_ends_a_wait(seed: int) -> None:
    """The activity of a batch sleeps until the time that a step names, unless there is news."""
    walk = Walk(1_000 + seed)
    walk.open()
    for _ in range(300):
        due = walk.step()
        if not due:
            break
        walk.move()
        news = walk.life.has_news
        step = walk.life.next_step(walk.now)
        assert isinstance(step, Wait) is not news or walk.now >= due
        assert not (news and isinstance(step, Wait))  # it would ask for ever

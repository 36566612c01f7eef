"""In any order of events, a delivery is never stuck, an ended delivery stays ended, and late or
repeated facts do no harm.

Deliveries go on random walks. On a *calm* walk, one worker at a time steps, as a delivery's
workflow does, and people, jobs and the circuit act at any time. On a *wild* walk, workers also
freeze: others make the same attempts beside them, and facts are applied late or repeatedly.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property, lru_cache, partial
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import recount
from hookfast.deliveries.facts import (
    Action,
    AttemptEnded,
    AttemptPlan,
    Fact,
    Held,
    Limited,
    Trigger,
    Undeliverable,
)
from hookfast.deliveries.figures import Key, Tally
from hookfast.deliveries.lane import Place
from hookfast.deliveries.life import End, Life, Phase, Wait, apply_fact, next_step
from hookfast.deliveries.outcome import Outcome, Reason, Result
from hookfast.deliveries.retry_plan import PlanSpec
from hookfast.storage.deliveries import lives
from hookfast.storage.deliveries.life_rows import (
    COLUMNS,
    WRITTEN,
    LifeChange,
    Locked,
    life_of,
    values_of,
)

START = datetime(2026, 11, 20, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
DELAYS = (60, 600)
PLAN: PlanSpec = {"delays_seconds": list(DELAYS), "jitter": 0.1}
TIMEOUT = 10.0
FAR = START + timedelta(days=10_000)

FAILS = Outcome(result=Result.STATUS, duration_ms=1000, status_code=503, error="503")
SUCCEEDS = Outcome(result=Result.SUCCESS, duration_ms=1000, status_code=200)
IS_GONE = Outcome(result=Result.STATUS, duration_ms=1000, status_code=410, error="410")

RESENDS = (Action.RESEND, Action.RESEND_YIELDING)


@dataclass(frozen=True)
class Try:
    """An attempt that a worker is making."""

    attempt: AttemptPlan
    started_at: datetime

    def ended(self, outcome: Outcome) -> AttemptEnded:
        return AttemptEnded(
            attempt_id=f"att_{self.started_at.timestamp()}",
            attempt=self.attempt,
            started_at=self.started_at,
            outcome=outcome,
            plan=PLAN,
            timeout_seconds=TIMEOUT,
            jitter=0.5,
        )


@dataclass(frozen=True)
class Step:
    """A fact, and the life before and after it. `fact` is None if time passed."""

    before: Life
    fact: Fact | None
    after: Life
    now: datetime
    under_way: bool


@dataclass
class Walk:
    """A delivery, the attempts that workers are making, and all steps so far."""

    wild: bool = False
    life: Life = field(default_factory=lambda: Life(due_at=START))
    now: datetime = START
    tries: list[Try] = field(default_factory=list)
    late: list[Fact] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def apply(self, fact: Fact) -> None:
        before, self.life = self.life, apply_fact(self.life, fact, now=self.now)
        self.steps.append(Step(before, fact, self.life, self.now, bool(self.tries)))

    def pass_time(self, until: datetime) -> None:
        if until > self.now:
            self.now = until
            self.steps.append(Step(self.life, None, self.life, until, bool(self.tries)))

    def pass_seconds(self, seconds: float) -> None:
        self.pass_time(self.now + timedelta(seconds=seconds))

    def pass_time_to_the_next_attempt(self) -> None:
        """Pass time as the workflow's timer does."""
        if self.life.next_attempt_at is not None and (self.wild or not self.tries):
            self.pass_time(self.life.next_attempt_at)

    def planned(self, *, probe: bool = False) -> AttemptPlan | None:
        """Return the attempt that a worker finds due; None if there is none or another makes it."""
        if self.tries and not self.wild:
            return None
        step = next_step(self.life, self.now, probe=probe)
        return step if isinstance(step, AttemptPlan) else None

    def begin(self, *, probe: bool = False) -> None:
        """Let a worker send the request that is due."""
        if (attempt := self.planned(probe=probe)) is not None:
            self.tries.append(Try(attempt, self.now))

    def end(self, outcome: Outcome) -> None:
        """Answer and record an attempt; on a wild walk also one whose worker was frozen while
        others continued."""
        if self.tries:
            # alternately the one that was begun first and the one that was begun last
            one = self.tries[0 if len(self.steps) % 2 else -1]
            self.pass_time(one.started_at + timedelta(milliseconds=outcome.duration_ms))
            self.tries.remove(one)
            self.apply(one.ended(outcome))

    def attempt(self, outcome: Outcome, *, probe: bool = False) -> None:
        self.begin(probe=probe)
        self.end(outcome)

    def postpone(self, decision: str, *, probe: bool = False) -> None:
        """Postpone the attempt that is due."""
        fact = postpone(self.planned(probe=probe), decision, self.now)
        if fact is not None:
            self.apply(fact)

    def postpone_late(self, decision: str) -> None:
        """Let a worker decide to postpone, and freeze before that is recorded."""
        if self.wild and (fact := postpone(self.planned(), decision, self.now)) is not None:
            self.late.append(fact)

    def apply_late(self) -> None:
        if self.late:
            self.apply(self.late.pop(0))

    def repeat(self) -> None:
        """Record the last attempt once more."""
        recorded = [step.fact for step in self.steps if isinstance(step.fact, AttemptEnded)]
        if self.wild and recorded:
            self.apply(recorded[-1])


def postpone(attempt: AttemptPlan | None, decision: str, now: datetime) -> Fact | None:
    """Return the fact that an attempt is held, limited or undeliverable; None if it cannot be."""
    if attempt is None:
        return None
    match decision:
        case "held" if attempt.trigger is not Trigger.RESEND or attempt.yields_to_circuit:
            return Held(attempt, Reason.CIRCUIT_OPEN, now + timedelta(hours=6))
        case "limited":
            return Limited(attempt, now + timedelta(seconds=40))
        case "undeliverable":
            return Undeliverable(attempt, Reason.ENDPOINT_DISABLED, "disabled")
        case _:
            return None


Move = Callable[[Walk], None]
CALM: dict[str, Move] = {
    **{action.value: partial(Walk.apply, fact=action) for action in Action},
    "is next in line": lambda walk: walk.apply(Action.MOVE_UP),
    "begins": lambda walk: walk.begin(),
    "fails": lambda walk: walk.end(FAILS),
    "begins and fails": lambda walk: walk.attempt(FAILS),
    "probe begins": lambda walk: walk.begin(probe=True),
    "probe fails": lambda walk: walk.attempt(FAILS, probe=True),
    "is held": lambda walk: walk.postpone("held"),
    "probe is held": lambda walk: walk.postpone("held", probe=True),
    "is limited": lambda walk: walk.postpone("limited"),
    "probe is limited": lambda walk: walk.postpone("limited", probe=True),
    "1 s": lambda walk: walk.pass_seconds(1),
    "25 s": lambda walk: walk.pass_seconds(25),
    "2000 s": lambda walk: walk.pass_seconds(2_000),
    "time": lambda walk: walk.pass_time_to_the_next_attempt(),
}
ENDS: dict[str, Move] = {
    "arrives": lambda walk: walk.end(SUCCEEDS),
    "is gone": lambda walk: walk.end(IS_GONE),
    "is undeliverable": lambda walk: walk.postpone("undeliverable"),
}
WILD: dict[str, Move] = {
    "is held late": lambda walk: walk.postpone_late("held"),
    "is limited late": lambda walk: walk.postpone_late("limited"),
    "is undeliverable late": lambda walk: walk.postpone_late("undeliverable"),
    "comes late": lambda walk: walk.apply_late(),
    "is repeated": lambda walk: walk.repeat(),
}
MOVES = CALM | ENDS | WILD
OFTEN = ["begins", "fails", "begins and fails", "is held", "is limited", "time"]
OFTEN += ["resend", "resend_yielding", "release", "resume", "is next in line"]
PLACES = (None, Place.QUEUED, Place.HEAD)


@st.composite
def names(draw: st.DrawFn, *kinds: Iterable[str]) -> list[str]:
    """Draw moves of these kinds, most often those that change much."""
    known = [name for kind in kinds for name in kind]
    length = draw(st.integers(0, 80))  # lists without a length of their own are of about five
    each = st.sampled_from([*known, *OFTEN])
    return draw(st.lists(each, min_size=length, max_size=length))


def walked(moves: Sequence[str], *, wild: bool = False, place: Place | None = None) -> Walk:
    walk = Walk(wild=wild, life=Life(due_at=START, place=place))
    for move in moves:
        MOVES[move](walk)
    return walk


@st.composite
def walks(draw: st.DrawFn) -> Walk:
    """Draw walks of both kinds, in a lane and in none."""
    place = draw(st.sampled_from(PLACES))
    if draw(st.booleans()):
        return walked(draw(names(CALM, ENDS, WILD)), wild=True, place=place)
    return walked(draw(names(CALM, ENDS)), place=place)


# -- what holds after every step ------------------------------------------------------------------


def fields_of_a_life_agree(step: Step) -> None:
    life = step.after
    assert life.retries <= len(DELAYS)
    assert life.excluded >= timedelta(0)
    assert life.began_at is not None or (life.retries, life.excluded) == (0, timedelta(0))
    if life.phase.ended:
        assert life.finished_at is not None
        assert (life.due_at, life.recheck_at, life.resend, life.waiting_since) == (None,) * 4
        assert not life.released
        assert life.place in (None, Place.LEFT) or life.blocks_lane
    else:
        assert life.finished_at is None
        assert life.due_at is not None
        assert life.place is not Place.LEFT
        assert (life.recheck_at is None) is (life.phase is not Phase.HELD)
        assert (life.waiting_since is None) is (life.phase is Phase.WAITING)
    match life.phase:
        case Phase.WAITING | Phase.DELIVERED | Phase.CANCELLED:
            assert life.reason is None
        case Phase.PAUSED:
            assert life.reason is None
            assert not life.released
        case Phase.LIMITED:
            assert life.reason is Reason.ENDPOINT_LIMIT
        case Phase.HELD:
            assert life.reason is Reason.CIRCUIT_OPEN
        case Phase.GONE:
            assert life.reason is Reason.GONE
        case Phase.DEAD:
            assert life.reason is not None


def open_delivery_moves_by_itself_or_waits_for_a_person(step: Step) -> None:
    life, moment = step.after, step.after.next_attempt_at
    if moment is not None:
        assert isinstance(next_step(life, max(step.now, moment)), AttemptPlan)
    elif life.phase.ended:
        assert next_step(life, FAR) == next_step(life, FAR, probe=True) == End()
    else:
        assert life.place is Place.QUEUED or (life.phase, life.resend) == (Phase.PAUSED, None)
        assert next_step(life, FAR) == Wait(None)


def place_changes_as_the_lane_and_the_end_say(step: Step) -> None:
    before, after = step.before, step.after
    assert (before.place is None) is (after.place is None)
    if before.place == after.place:
        return
    match before.place, after.place:
        case Place.QUEUED, Place.HEAD:
            assert step.fact is Action.MOVE_UP
        case Place.QUEUED, Place.LEFT:
            assert (step.fact, after.phase) == (Action.CANCEL, Phase.CANCELLED)
        case Place.HEAD, Place.LEFT:
            assert after.phase.ended
            assert after.phase is not Phase.DEAD or step.fact is Action.LEAVE_LANE
        case Place.LEFT, Place.QUEUED:
            assert after.round == before.round + 1
        case _:
            pytest.fail(f"{before.place} → {after.place}")


def queued_delivery_is_not_attempted_and_keeps_its_plan(step: Step) -> None:
    life = step.after
    if life.place is Place.QUEUED:
        assert life.phase in (Phase.WAITING, Phase.PAUSED)
        assert (life.began_at, life.retries, life.next_attempt_at) == (None, 0, None)
        assert next_step(life, FAR, in_batch=True) == next_step(life, FAR, probe=True) == Wait(None)


def head_is_due_when_it_moves_up(step: Step) -> None:
    moved_up = step.before.place is Place.QUEUED and step.after.place is Place.HEAD
    if moved_up and step.after.phase is not Phase.PAUSED:
        assert isinstance(next_step(step.after, step.now), AttemptPlan)


def _locked(life: Life) -> Locked:
    ids = ("dlv_1", "evt_1", "ep_1", "tnt_1", "order.invoice.paid")
    return Locked(*ids, 0, life, due_from=START)


def life_is_unchanged_by_storage(step: Step) -> None:
    values = values_of(LifeChange(_locked(step.before), step.after), now=step.now)
    row = {name.removeprefix("b_"): value for name, value in values.items()}
    assert row.keys() == WRITTEN | {"id"}
    row["batch_until"] = step.before.batch_until  # the outbox writes it
    assert life_of([row[column.name] for column in COLUMNS]) == step.after


@lru_cache
def recounted(life: Life) -> Mapping[Key, int]:
    """Count a delivery by the row that is stored of it."""
    values = values_of(LifeChange(_locked(life), life), now=START)
    row = {name.removeprefix("b_"): value for name, value in values.items()}
    tally = Tally()
    recount.count_delivery(
        tally, SimpleNamespace(**row, **_locked(life).ids, created_at=START, deliver_at=None)
    )
    return dict(tally.numbers())


def figures_agree_with_the_row(step: Step) -> None:
    """What is counted of a change makes the figures of the row before into those of the row
    after; only an end that was counted is never taken back."""
    before, after = step.before, step.after
    if before == after:
        return
    tally = Tally()
    lives.count_change(tally, LifeChange(_locked(before), after))
    figures = Counter(
        {
            key: number
            for key, number in recounted(before).items()
            if (before.phase, before.finished_at) == (after.phase, after.finished_at)
            or not key.kind.startswith("ended:")
        }
    )
    figures.update(dict(tally.numbers()))
    assert {key: number for key, number in figures.items() if number} == recounted(after)


def ended_delivery_moves_only_by_a_resend(step: Step) -> None:
    if not step.before.phase.ended:
        return
    if step.before.blocks_lane and step.fact in (Action.CANCEL, Action.LEAVE_LANE):
        ended_as = Phase.CANCELLED if step.fact is Action.CANCEL else Phase.DEAD
        assert (step.after.phase, step.after.place) == (ended_as, Place.LEFT)
    elif step.fact in RESENDS:
        assert (step.after.phase, step.after.round) == (Phase.WAITING, step.before.round + 1)
    else:  # at most, an attempt that was under way is recorded
        assert step.after == replace(step.before, attempts=step.after.attempts)


def plan_starts_again_only_by_a_resend(step: Step) -> None:
    if step.after.round != step.before.round:
        assert step.after.round == step.before.round + 1
        assert step.after.resend is not None
        assert step.fact in RESENDS or step.before.resend == step.after.resend


def counts_never_decrease(step: Step) -> None:
    assert step.after.attempts >= step.before.attempts
    assert step.after.retries >= step.before.retries or step.after.round > step.before.round


def only_attempts_use_up_attempts(step: Step) -> None:
    """Being held, limited or paused uses up none, however long it lasts."""
    if not isinstance(step.fact, AttemptEnded):
        assert step.after.attempts == step.before.attempts
        assert step.after.retries == step.before.retries or step.fact in RESENDS


def failure_beside_the_plan_leaves_the_plan_unchanged(step: Step) -> None:
    """An attempt beside the plan is a person's resend, a job's resend or a probe."""
    fact, before, life = step.fact, step.before, step.after
    if isinstance(fact, AttemptEnded) and not fact.attempt.in_plan and fact.outcome is FAILS:
        assert life.phase.ended is before.phase.ended
        assert (life.retries, life.due_at) == (before.retries, before.due_at)
        assert (life.began_at, life.round) == (before.began_at, before.round)


def delivery_is_not_attempted_before_next_attempt_at(step: Step) -> None:
    moment = step.after.next_attempt_at
    if moment is not None and moment > step.now:
        just_before = moment - timedelta(microseconds=1)
        assert next_step(step.after, just_before) == Wait(moment)


def resend_waits_for_its_turn(step: Step) -> None:
    planned = next_step(step.after, step.now)
    if isinstance(planned, AttemptPlan) and planned.trigger is Trigger.RESEND:
        assert step.after.resend is not None
        assert step.after.resend.at <= step.now


def held_or_limited_attempt_is_not_planned_again_at_once(step: Step) -> None:
    """Otherwise its workflow would step in a loop."""
    if isinstance(step.fact, Held | Limited) and step.after != step.before:
        assert next_step(step.after, step.now) != step.fact.attempt


def restarted_plan_begins_with_the_resend(step: Step) -> None:
    if step.after.round != step.before.round:
        life = apply_fact(step.after, Action.MOVE_UP, now=step.now)
        assert life.next_attempt_at is not None
        planned = next_step(life, max(step.now, life.next_attempt_at))
        assert isinstance(planned, AttemptPlan)
        assert (planned.trigger, planned.in_plan) == (Trigger.RESEND, True)


RULES = [
    fields_of_a_life_agree,
    open_delivery_moves_by_itself_or_waits_for_a_person,
    life_is_unchanged_by_storage,
    figures_agree_with_the_row,
    ended_delivery_moves_only_by_a_resend,
    plan_starts_again_only_by_a_resend,
    counts_never_decrease,
    only_attempts_use_up_attempts,
    failure_beside_the_plan_leaves_the_plan_unchanged,
    delivery_is_not_attempted_before_next_attempt_at,
    resend_waits_for_its_turn,
    held_or_limited_attempt_is_not_planned_again_at_once,
    restarted_plan_begins_with_the_resend,
    place_changes_as_the_lane_and_the_end_say,
    queued_delivery_is_not_attempted_and_keeps_its_plan,
    head_is_due_when_it_moves_up,
]


@given(walk=walks())
def test_all_rules_hold_after_every_step(walk: Walk) -> None:
    for step in walk.steps:
        for holds in RULES:
            holds(step)


@given(walk=walks())
def test_cancelled_delivery_is_not_attempted_until_it_is_resent(walk: Walk) -> None:
    cancelled = False
    for step in walk.steps:
        if step.fact is Action.CANCEL:
            cancelled = True
        elif step.fact in RESENDS:
            cancelled = False
        if cancelled:
            assert next_step(step.after, FAR) == next_step(step.after, FAR, probe=True) == End()


def long_walk(seed: int) -> Walk:
    """Make two thousand moves, few of which end the delivery, so that plans are used up."""
    place = PLACES[seed % 3]
    dice = random.Random(seed)
    walk = Walk(wild=seed % 2 == 1, life=Life(due_at=START, place=place))
    known = [*CALM, *OFTEN * 3, *(WILD if walk.wild else [])]
    for _ in range(2_000):
        MOVES[dice.choice(known if dice.random() < 0.97 else list(ENDS))](walk)
    return walk


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(one, marks=pytest.mark.slow) for one in range(4, 20))]
)
def test_all_rules_hold_in_a_long_life(seed: int) -> None:
    walk = long_walk(seed)
    for step in walk.steps:
        for holds in RULES:
            holds(step)
    assert walk.life.round > 10


@given(
    excluded=st.timedeltas(timedelta(0), timedelta(days=10_000)),
    due_at=st.datetimes(datetime(2000, 1, 1), timezones=st.just(UTC)),
)
def test_stored_times_are_exact_to_the_microsecond(excluded: timedelta, due_at: datetime) -> None:
    life = Life(due_at=due_at, excluded=excluded)
    life_is_unchanged_by_storage(Step(life, None, life, START, False))


# -- how long a plan lasts ------------------------------------------------------------------------


def used_up(life: Life, now: datetime) -> timedelta:
    """Return how much of its plan's time a delivery has used up."""
    if life.began_at is None:
        return timedelta(0)
    waits = timedelta(0)
    if life.waiting_since is not None:
        waits = now - max(life.waiting_since, life.began_at)
    return now - life.began_at - life.excluded - waits


@given(moves=names(CALM, ENDS))
def test_time_that_is_paused_held_or_limited_does_not_use_up_the_plan(moves: list[str]) -> None:
    """The time used up is at least that of WAITING, and at most that of WAITING or sending."""
    least = most = timedelta(0)
    then = START
    for step in walked(moves).steps:
        passed, then = step.now - then, step.now
        if step.before.phase is Phase.WAITING or step.under_way:
            most += passed
        if step.before.phase is Phase.WAITING:
            least += passed
        if step.before.began_at is None or step.after.began_at is None:
            least = most = timedelta(0)
            if isinstance(step.fact, AttemptEnded):  # the plan begins where this attempt did
                most = step.now - step.fact.started_at
        if not step.after.phase.ended:
            assert least <= max(timedelta(0), used_up(step.after, step.now)) <= most


FAIL_ONLY = ["begins", "fails", "begins and fails", "is held", "is limited", "probe fails"]
FAIL_ONLY += ["probe is held", "probe is limited", "pause", "resume", "resend", "resend_yielding"]
FAIL_ONLY += ["release", "check_limits", "1 s", "25 s", "2000 s", "time"]


@given(moves=names(FAIL_ONLY))
def test_failing_plan_makes_its_first_attempt_and_every_retry(
    moves: list[str],
) -> None:
    """Resends, pauses, holds and limits in between do not matter, if workers are there when an
    attempt is due."""
    walk = Walk()
    for move in moves:
        due = walk.life.next_attempt_at
        if move.endswith(" s") and due is not None:
            until = walk.now + timedelta(seconds=int(move.split()[0]))
            walk.pass_time(min(until, due))
        else:
            MOVES[move](walk)
    for _ in range(100):
        walk.end(FAILS)
        walk.apply(Action.RESUME)
        walk.pass_time_to_the_next_attempt()
        walk.begin()
    attempts = [step.fact.attempt for step in walk.steps if isinstance(step.fact, AttemptEnded)]
    for number in range(walk.life.round + 1):
        in_plan = [one for one in attempts if one.round == number and one.in_plan]
        assert len(in_plan) == 1 + len(DELAYS)
    assert walk.life.attempts == len(attempts)
    assert walk.life.reason is Reason.RETRIES_EXHAUSTED


# -- facts that were computed before the delivery moved on ----------------------------------------


@dataclass(frozen=True)
class State:
    """A life at a moment."""

    life: Life
    now: datetime

    @cached_property
    def moves(self) -> list[tuple[Fact, State, list[tuple[Fact, State]]]]:
        """Every fact, the state after it, and each stale second fact with the state after it."""
        facts = list(computed(self))
        after = [(fact, moved(self, fact)) for fact in [*Action, *facts]]
        return [
            (fact, first, [(late, moved(first, late)) for late in facts]) for fact, first in after
        ]

    @cached_property
    def shape(self) -> tuple[object, ...]:
        """Everything that decides what a life does, without counts and exact times."""
        life, now = self.life, self.now

        def side(moment: datetime | None) -> str:
            if moment is None:
                return "never"
            return "past" if moment <= now else "future"

        resend = None
        if life.resend is not None:
            due_first = life.due_at is not None and life.due_at < life.resend.at
            resend = (life.resend.yields_to_circuit, side(life.resend.not_before), due_first)
        return (
            life.phase,
            life.reason,
            life.attempts > 0,
            life.retries,
            life.round > 0,
            side(life.due_at),
            side(life.recheck_at),
            life.began_at is None,
            life.waiting_since is None,
            life.released,
            resend,
            life.place,
        )


def computed(state: State) -> Iterator[Fact]:
    """Yield the facts that workers may find now about the due attempt."""
    for probe in (False, True):
        step = next_step(state.life, state.now, probe=probe)
        if not isinstance(step, AttemptPlan) or (probe and step.trigger is not Trigger.PROBE):
            continue
        for decision in ("held", "limited", "undeliverable"):
            if (fact := postpone(step, decision, state.now)) is not None:
                yield fact
        for outcome in (FAILS, SUCCEEDS, IS_GONE):
            yield Try(step, state.now).ended(outcome)


def moved(state: State, fact: Fact) -> State:
    """Apply a fact a second later, so that facts in a row have different times."""
    now = state.now + SECOND
    return State(apply_fact(state.life, fact, now=now), now)


def neighbours(state: State) -> Iterator[State]:
    """Yield the states after one fact, after a stale second fact, and after time has passed."""
    for _, first, later in state.moves:
        yield first
        yield from (last for _, last in later)
    if state.life.next_attempt_at is not None:
        yield State(state.life, max(state.now, state.life.next_attempt_at))


@cache
def reachable() -> tuple[State, ...]:
    """Return one state of every shape that a delivery can reach."""
    starts = [State(Life(due_at=START, place=place), START) for place in PLACES]
    found = {first.shape: first for first in starts}
    waiting = deque([*starts, State(Life(due_at=START + 100 * SECOND), START)])
    while waiting:
        for state in neighbours(waiting.popleft()):
            if state.shape not in found:
                found[state.shape] = state
                waiting.append(state)
    return tuple(found.values())


def single_steps() -> Iterator[Step]:
    """Yield a step for every fact in every state."""
    for state in reachable():
        for fact, after, _ in state.moves:
            yield Step(state.life, fact, after.life, after.now, under_way=False)


StalePair = tuple[State, Fact, State, Fact, State]


def relation(state: State, late: Fact, after: State) -> tuple[object, ...]:
    """Return how a late fact concerns a state, and what it does to it, without exact times."""
    assert not isinstance(late, Action)
    life, attempt = state.life, late.attempt
    return (
        state.shape,
        type(late),
        late.outcome.result if isinstance(late, AttemptEnded) else None,
        late.outcome.status_code if isinstance(late, AttemptEnded) else None,
        attempt.trigger,
        attempt.in_plan,
        attempt.yields_to_circuit,
        attempt.number - life.attempts,
        attempt.round - life.round,
        attempt.position - life.position,
        life.resend is not None and life.resend.asked_at == attempt.resend_asked_at,
        next_step(life, state.now, probe=attempt.trigger is Trigger.PROBE) == attempt,
        after.shape,
        after.life == life,
    )


@pytest.fixture(scope="module", params=["unlike", pytest.param("all", marks=pytest.mark.slow)])
def stale_pairs(request: pytest.FixtureRequest) -> list[StalePair]:
    """Each state, a fact, the state after it, a stale fact, and the state after that. `make test`
    has one of those in which the stale fact meets a like state and does the like to it."""
    pairs: list[StalePair] = []
    known: set[tuple[object, ...]] = set()
    for state in reachable():
        for fact, first, later in state.moves:
            for second, last in later:
                if request.param == "unlike":
                    like = relation(first, second, last)
                    if like in known:
                        continue
                    known.add(like)
                pairs.append((state, fact, first, second, last))
    assert len(pairs) > 20_000
    return pairs


def test_every_phase_is_reachable() -> None:
    assert {state.life.phase for state in reachable()} == set(Phase)
    assert len(reachable()) > 500


def test_all_rules_hold_in_every_state() -> None:
    for step in single_steps():
        for holds in RULES:
            holds(step)


def test_all_rules_hold_after_a_stale_fact(stale_pairs: list[StalePair]) -> None:
    for *_, first, late, last in stale_pairs:
        step = Step(first.life, late, last.life, last.now, under_way=False)
        for holds in RULES:
            holds(step)


def test_late_record_does_not_move_an_ended_delivery(stale_pairs: list[StalePair]) -> None:
    for *_, first, late, last in stale_pairs:
        if first.life.phase.ended:
            number = late.attempt.number if isinstance(late, AttemptEnded) else 0
            attempts = max(first.life.attempts, number)
            assert last.life == replace(first.life, attempts=attempts)


def test_stale_hold_or_limit_changes_nothing(stale_pairs: list[StalePair]) -> None:
    for *_, first, late, last in stale_pairs:
        if isinstance(late, Held | Limited | Undeliverable):
            probe = late.attempt.trigger is Trigger.PROBE
            if next_step(first.life, last.now, probe=probe) != late.attempt:
                assert last.life == first.life


def test_recording_an_attempt_twice_is_recording_it_once(stale_pairs: list[StalePair]) -> None:
    for state, fact, _, late, last in stale_pairs:
        if isinstance(late, AttemptEnded):
            assert moved(last, late).life == last.life, (state, fact, late)

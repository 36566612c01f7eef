"""Decides how much a worker has in hand: how many rows it claims, whether first attempts travel in
batches and how large those are, and how many workflows it starts at once.

What it measures, and what it decides by that:

- *How long Temporal takes to answer a start, and how long a start's first step waits in this
  process* limit the starts at once. Temporal serves requests in the order in which they come, so
  many starts under way delay the polls and answers that every running delivery needs. A first step
  that does not begin within a workflow task's ten seconds is attempted again: the rate of workers
  with 0.14 cores fell to a tenth.
- *How fast new deliveries come, and how long they waited* decide whether they are batched.
- *How long a claim takes, with its commit,* decides how long they gather for the next one.
- *How long a batch keeps the worker busy* decides how many deliveries the next one takes.
- *How late retries begin* limits the new deliveries: retries go first.
- *How many requests to an endpoint have no answer for a second* limits its new deliveries in
  progress, and those in batches.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal

from hookfast.deliveries.batch_messages import MOST, PER_ENDPOINT
from hookfast.deliveries.messages import Urgency
from hookfast.deliveries.time_budget import WORKFLOW_TASK
from hookfast.slots import Slots
from hookfast.telemetry import instruments

Setting = Literal["auto", "workflow", "batch"]

MOST_STARTS: Final = 32
"""More starts at once would only queue up in Temporal's server."""
_SLOW_SECONDS: Final = 0.2  # an answer takes 2 to 10 ms while Temporal has little to do
_SLOW_TIMES: Final = 3
"""An answer is slow if it takes this many times as long as the quickest; Temporal may be far
away."""
_FORGET: Final = 1.0005
"""The quickest time grows by this factor with each answer that is not quicker: it doubles within
1,400, so that a Temporal which has moved away is not slow for ever."""
_MOST_STEPS: Final = 128
_STEP_SLOW_SECONDS: Final = 1.0
"""A first step is slow if it begins so long after Temporal's answer. A worker that keeps a whole
core busy begins a hundred in that time."""

_WAITED_LONG: Final = timedelta(milliseconds=250)
"""If a new delivery waited this long for its workflow, the worker does not keep up."""
_BATCHED_SECONDS: Final = 5.0
"""Minimum duration of batching in seconds, and the period over which the rate that ends it
counts."""
_BRISK: Final = 20.0
"""Deliveries per second that are too many for workflows of their own in any case: those take half a
core, and a delivery waits three times as long for its request."""
_SLOWEST: Final = 2.0
"""Deliveries per second below which batches are never needed."""
_AT_ONCE: Final = 8
"""More starts in progress than this are a burst: their workflows take both cores of a small machine
for 0.06 s. With 240 deliveries a second after a pause, the first ones took 0.3 s where 20 of them
had got workflows of their own, and 0.15 to 0.2 s with 8."""

_GATHER_TIMES: Final = 2
_MOST_GATHER_SECONDS: Final = 0.03
"""New deliveries gather before the next claim, so that they share its cost: for twice as long as
the last one took if it found four or more, for half as long if it found one, and 30 ms at most.
With single emits at the highest rate of a busy machine, relay, batches and records needed 3.6 to
4.6 statements a delivery, and 5.2 where it was always 3 ms; their CPU fell by 15 %. A delivery that
comes alone does not wait."""

BATCHES: Final = 2  # at once: one is loaded while the requests of the other are made
_TOO_LONG_SECONDS: Final = 2.5
"""A batch that takes longer is too large for this worker. After 5 s it gives its deliveries back,
to be claimed again, so that a worker with 0.15 cores fell from 60 deliveries a second to 10."""
_SMALLEST: Final = 2 * PER_ENDPOINT  # fewer would not use all requests an endpoint may get at once

RETRY_LATE: Final = timedelta(seconds=1)
"""Retries that start later than this are late: more than a timer and a busy moment explain."""
_LATE_SECONDS: Final = 10.0
"""Retries count as late for so long: five failures in a row within it open a circuit, which late
retries to a receiver that recovers would do."""
_NEW_WHILE_LATE: Final = 4  # new deliveries in progress meanwhile, so that none wait for ever

_PER_ENDPOINT: Final = 2 * MOST
"""New deliveries of one endpoint in progress at once."""
_PER_SLOW_ENDPOINT: Final = PER_ENDPOINT
"""The same for an endpoint that has its share of the slow requests."""


@dataclass(frozen=True, slots=True)
class InHand:
    """What the relay has in hand. `starting` are deliveries whose workflows are being started or
    woken, of which `persons` were requested by a person and `new` are first attempts or jobs.
    `batch_room` is how many deliveries fit into the batch that is open, or into a new one."""

    starting: int = 0
    persons: int = 0
    new: int = 0
    batch_room: int = 0


@dataclass(frozen=True, slots=True)
class Allowance:
    """How much may be claimed: at most `own` rows that each need a workflow, at least as urgent as
    `least_urgent`, and then `new` deliveries. They go into a batch if `batched`; otherwise they
    count as `own` too."""

    own: int
    least_urgent: int = Urgency.JOB
    new: int = 0
    batched: bool = False


class Window:
    """A limit that follows TCP's congestion avoidance (RFC 5681): it grows by one per round trip
    while that is quick, and is halved, once per round trip, when one is slow."""

    def __init__(self, first: float, *, most: float) -> None:
        self._size = first
        self._most = most
        self._halved_at = -math.inf

    def __int__(self) -> int:
        return int(self._size)

    def quick(self) -> None:
        self._size = min(self._most, self._size + 1 / self._size)

    def slow(self, began: float, now: float, *, of: float | None = None) -> None:
        """Halve the limit, or `of`, what is in progress. What `began` in the larger window says
        nothing about the halved one."""
        if began > self._halved_at:
            self._size = max(1.0, (self._size if of is None else of) / 2)
            self._halved_at = now


class Rate:
    """Deliveries per second over the last `seconds`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._taken: deque[tuple[float, int]] = deque()
        self._count = 0

    def add(self, now: float, count: int) -> None:
        self._taken.append((now, count))
        self._count += count

    def at(self, now: float) -> float:
        while self._taken and now - self._taken[0][0] > self._seconds:
            self._count -= self._taken.popleft()[1]
        return self._count / self._seconds


class Pace:
    """How much one worker process has in hand. `most_claimed` is how many rows one transaction
    claims at most, `most_slow` how many first attempts may have left their batches without an
    answer: one endpoint that never answers has a third of them, which is 26 deliveries a second
    with 400 and a timeout of 5 s."""

    def __init__(
        self,
        setting: Setting = "auto",
        *,
        most_claimed: int = 64,
        most_slow: int = 400,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._setting = setting
        self._most_claimed = most_claimed
        self._now = now
        self._starts = Window(8, most=MOST_STARTS)
        self._steps = Window(_MOST_STEPS, most=_MOST_STEPS)
        self._starting: dict[str, float] = {}  # when Temporal was asked
        self._unbegun: dict[str, float] = {}  # when it answered
        self._quickest = math.inf
        self._lately, self._for_a_while = Rate(1.0), Rate(_BATCHED_SECONDS)
        self._batched = setting == "batch"
        self._batched_since = 0.0
        self._too_much = 0.0
        self._late_at = -math.inf
        self.gather_seconds = 0.0
        """How long new deliveries gather before they are claimed for a batch."""
        self.batch_size = MOST
        self.slow_requests = Slots(most_slow)
        """First attempts that have left their batches without an answer, by endpoint."""
        self.on_room: Callable[[], None] = lambda: None
        """Called when a start that had to wait for a first step may begin."""
        self._export()

    # -- how much to claim -------------------------------------------------------------------------

    def allowance(self, has: InHand) -> Allowance:
        """How many rows may be claimed. As many may wait for their start as are starting; requests
        by a person are claimed in any case, but no more than can start before their leases end."""
        own = max(0, self._most_own - has.starting)
        late, batched = self.retries_are_late, self.batched and not self.retries_are_late
        new = has.batch_room if batched else 0
        if late:
            new = max(0, _NEW_WHILE_LATE - has.new)
        if not own:
            persons = max(0, self._most_claimed - has.persons)
            return Allowance(persons, Urgency.PERSON, new if batched else 0, batched)
        if late or batched:
            return Allowance(own, Urgency.RETRY, new, batched)
        return Allowance(own)

    def wants_more(self, has: InHand) -> bool:
        """Whether it is time to claim. Half of the workflows start before more rows are claimed,
        because each claim costs a transaction."""
        if self.batched:
            return has.batch_room > 0
        return has.starting <= self._most_own // 2

    @property
    def _most_own(self) -> int:
        return min(self._most_claimed, 2 * self.start_window)

    def claimed(self, count: int, *, oldest: timedelta) -> None:
        """Note that so many new deliveries were claimed. `oldest` is how long the first of them
        waited."""
        if self._setting != "auto":
            return
        now = self._now()
        self._lately.add(now, count)
        self._for_a_while.add(now, count)
        if self._batched:
            return
        lately, starting = self._lately.at(now), len(self._starting) + len(self._unbegun)
        if starting + count > _AT_ONCE or oldest > _WAITED_LONG or lately > _BRISK:
            self._batched, self._batched_since, self._too_much = True, now, min(lately, _BRISK)
            self._export()

    def claim_took(self, seconds: float, *, found: int) -> None:
        """Note how long a claim took, from its wait for a connection to its commit, and how many
        rows it found."""
        self.gather_seconds = min(seconds * min(found / 2, _GATHER_TIMES), _MOST_GATHER_SECONDS)

    # -- batches -----------------------------------------------------------------------------------

    @property
    def batched(self) -> bool:
        """Whether new deliveries go into batches now. That ends when they come at less than half
        the rate that was too much: with one threshold for both it would switch all the time."""
        if self._setting == "auto" and self._batched:
            now = self._now()
            slow = max(_SLOWEST, self._too_much / 2)
            if now - self._batched_since > _BATCHED_SECONDS and self._for_a_while.at(now) < slow:
                self._batched = False
                self._export()
        return self._batched

    def batch_rested(self, took: float) -> None:
        """Note how many seconds a batch kept the worker busy. Half as many deliveries go into the
        next one if that was too long, and twice as many if they would not take too long."""
        if took > _TOO_LONG_SECONDS:
            self.batch_size = max(_SMALLEST, self.batch_size // 2)
        elif took < _TOO_LONG_SECONDS / 2:
            self.batch_size = min(MOST, 2 * self.batch_size)

    # -- retries and endpoints ---------------------------------------------------------------------

    def retry_began(self, late: timedelta) -> None:
        """Note that a retry began this long after it was due."""
        instruments.RETRY_LATENESS.record(late.total_seconds())
        if late > RETRY_LATE:
            self._late_at = self._now()

    @property
    def retries_are_late(self) -> bool:
        """Whether a retry was late within the last ten seconds."""
        return self._now() - self._late_at < _LATE_SECONDS

    def endpoint_room(self, endpoint_id: str, in_progress: int) -> int:
        """How many more new deliveries of this endpoint may be in progress."""
        slow = self.slow_requests.share_is_used(endpoint_id)
        return max(0, (_PER_SLOW_ENDPOINT if slow else _PER_ENDPOINT) - in_progress)

    # -- starts ------------------------------------------------------------------------------------

    @property
    def start_window(self) -> int:
        """How many starts may be in progress at once, 1 to MOST_STARTS."""
        return min(int(self._starts), int(self._steps))

    @property
    def may_start(self) -> bool:
        """Whether Temporal may be asked for one more start now."""
        self._give_up_steps()
        in_progress = len(self._starting) + len(self._unbegun)
        return len(self._starting) < int(self._starts) and in_progress < int(self._steps)

    def start_begins(self, delivery_id: str) -> None:
        """Note that Temporal is asked to start or wake a workflow."""
        self._starting[delivery_id] = self._now()

    def start_ended(self, delivery_id: str, *, answered: bool, step_here: bool = False) -> None:
        """Note that the start has ended. A refused connection is quick and says nothing about
        Temporal's speed. `step_here`: Temporal gave the first step to this process."""
        began, now = self._starting.pop(delivery_id, None), self._now()
        if began is None:  # its step has begun already
            return
        if step_here:
            self._unbegun[delivery_id] = now
        self._learn(began, now, answered=answered)

    def step_begins(self, delivery_id: str) -> None:
        """Note that a first step begins in this process."""
        now = self._now()
        if (began := self._starting.pop(delivery_id, None)) is not None:
            self._learn(began, now, answered=True)
        elif (since := self._unbegun.pop(delivery_id, None)) is not None:
            self._learn_of_step(since, now)
            self.on_room()

    def _give_up_steps(self) -> None:
        """Wait no longer for first steps whose workflow tasks have ended."""
        now = self._now()
        while self._unbegun:
            delivery_id, since = next(iter(self._unbegun.items()))
            if now - since <= WORKFLOW_TASK.total_seconds():
                return
            del self._unbegun[delivery_id]
            self._learn_of_step(since, now)

    def _learn(self, began: float, now: float, *, answered: bool) -> None:
        took = now - began
        if answered:
            self._quickest = min(took, self._quickest * _FORGET)
        if took > max(_SLOW_SECONDS, _SLOW_TIMES * self._quickest):
            self._starts.slow(began, now)
        elif answered:
            self._starts.quick()

    def _learn_of_step(self, since: float, now: float) -> None:
        if now - since <= _STEP_SLOW_SECONDS:
            self._steps.quick()
        else:
            in_progress = len(self._starting) + len(self._unbegun)
            self._steps.slow(since, now, of=in_progress + 1)

    def _export(self) -> None:
        instruments.BATCHING.set(1.0 if self._batched else 0.0)

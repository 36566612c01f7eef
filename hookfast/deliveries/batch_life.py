"""A batch of first attempts, as a state machine. Pure: it is told what has happened and when, in
seconds of any monotonic clock, and `next_step` says what the batch does next.

    fact               STARTING   OPEN       CLOSED     RESTING    ENDED
    opened             OPEN       ·          ·          ·          ·
    opened, full       CLOSED     ·          ·          ·          ·
    joined             refused    OPEN       CLOSED     RESTING    refused
    joined, full       refused    CLOSED     CLOSED     RESTING    refused
    stopped            CLOSED     CLOSED     ·          ·          ·
    only slow left     –          RESTING    RESTING    ·          ·
    all left           –          ·          ENDED      ENDED      ·
    open for 1 s       –          CLOSED     ·          ·          ·
    open for 5 s       –          ENDED      ENDED      ENDED      ·
    given up, ended    ENDED      ENDED      ENDED      ENDED      ·

A dot means no change, a dash that it cannot happen yet. Its deliveries:

    fact               WAITING    LOADING    REQUESTED  RECORDING  BEHIND     LEFT
    turn               LOADING    ·          ·          ·          ·          ·
    begun              ·          REQUESTED  ·          ·          ·          ·
    answered           ·          ·          RECORDING  ·          ·          ·
    done               LEFT       LEFT       LEFT       LEFT       LEFT       ·
    is slow            ·          ·          BEHIND     ·          ·          ·
    endpoint is full   LEFT       LEFT       ·          ·          ·          ·
    open for 5 s       LEFT       LEFT       BEHIND     BEHIND     ·          ·
    given up, ended    LEFT       LEFT       LEFT       LEFT       ·          ·

- *joined*: a closed batch still takes the deliveries that were being leased for it when it closed.
  It ends when none are being leased any more, and all have left.
- *answered* ends its turn, and so does leaving: of the requests to one endpoint, a batch waits for
  `PER_ENDPOINT` at most.
- *is slow*: a request without an answer for a second, or for a tenth of one if others to its
  endpoint are BEHIND already. Time in which the worker was too busy to see an answer does not
  count: that is how much later than it had asked for it was called.
- *endpoint is full*: its worker has as many slow requests to the endpoint as it may.
- *only slow left*: each request has had no answer for a tenth of a second, and the others wait
  behind those of their endpoint. The worker has room for another batch then.
- *given up*: Temporal waits for the batch no longer, so another worker may have it. The deliveries
  leave it without a change of their rows. *ended*: its activity has, whatever the reason.
- A request begins only while the delivery's lease lasts for it and its record.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from hookfast.deliveries.batch_messages import MOST, PER_ENDPOINT, SLOW
from hookfast.deliveries.turns import Turns

OPEN_SECONDS: Final = 1.0
"""How long a batch takes deliveries. At 50 deliveries a second that is one workflow for 50."""
NEXT_SECONDS: Final = 0.85
"""The next batch is started when one has been open for so long, or is half full, so that nothing
waits for a workflow to start. At 350 deliveries a second p99 fell from 26 to 17 ms."""
LONGEST_SECONDS: Final = 5.0
"""A batch that has not ended after this long leaves all its deliveries: its worker is too busy."""
CHECK_SECONDS: Final = 0.1
"""How often requests are checked, and how long a batch waits for one to a slow endpoint. If only
slow ones are left, another batch begins after this long: otherwise the first deliveries to an
endpoint that never answers would delay all others by a second."""


class Phase(StrEnum):
    """Whether a batch takes deliveries, and whether it keeps its worker busy."""

    STARTING = "starting"  # Temporal has yet to run its workflow
    OPEN = "open"
    CLOSED = "closed"  # it takes no more, except those that are being leased for it
    RESTING = "resting"  # it is closed, and only requests to slow receivers are left
    ENDED = "ended"


class Stage(StrEnum):
    """How far a delivery of a batch is."""

    WAITING = "waiting"  # for its turn: its endpoint has as many requests as it may
    LOADING = "loading"
    REQUESTED = "requested"
    RECORDING = "recording"
    BEHIND = "behind"  # it has left the batch, and its request continues
    LEFT = "left"

    @property
    def in_hand(self) -> bool:
        """Whether it has not left the batch."""
        return self is not Stage.BEHIND and self is not Stage.LEFT


_UNBEGUN: Final = frozenset({Stage.WAITING, Stage.LOADING})


@dataclass(frozen=True, slots=True)
class Joining:
    """A delivery that was leased for a batch until a time. `endpoint_id` is "" if unknown. `slow`:
    other requests to the endpoint have left their batches without an answer."""

    delivery_id: str
    endpoint_id: str
    leased_until: float = math.inf
    slow: bool = False


@dataclass(frozen=True, slots=True)
class Attempt:
    """It is the turn of these deliveries."""

    delivery_ids: list[str]


@dataclass(frozen=True, slots=True)
class Leave:
    """These deliveries have left. The requests of those `behind` continue; nothing was begun for
    those that go `back`."""

    behind: list[str]
    back: list[str]


@dataclass(frozen=True, slots=True)
class GiveUp:
    """These deliveries have left, and their rows belong to another worker."""

    delivery_ids: list[str]


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do until this time, unless something happens before."""

    until: float


@dataclass(frozen=True, slots=True)
class End:
    """The batch has ended."""


Step: TypeAlias = "Attempt | Leave | GiveUp | Wait | End"


@dataclass(slots=True)
class _Member:
    """A delivery of the batch. `since` is when its request began."""

    delivery_id: str
    endpoint_id: str
    leased_until: float
    stage: Stage = Stage.WAITING
    since: float = math.inf


class BatchLife:
    """Decides what a batch does. `took` is how long it kept its worker busy, None if it did not
    yet. With `closed`, it takes no deliveries besides its first: another worker began it."""

    def __init__(
        self, first: Iterable[Joining] = (), *, most: int = MOST, closed: bool = False
    ) -> None:
        self.phase = Phase.CLOSED if closed else Phase.STARTING
        self.took: float | None = None
        self.in_progress: Counter[str] = Counter()
        self._most = most
        self._members: dict[str, _Member] = {}
        self._in_hand = 0
        self._turns = Turns(PER_ENDPOINT)
        self._slow_endpoints: set[str] = set()
        self._full_endpoints: set[str] = set()
        self._leasing = 0
        self._given_up = False
        self._opened_at = math.inf
        self._check_at = math.inf
        self._add(first)

    # -- what may be asked -------------------------------------------------------------------------

    @property
    def room(self) -> int:
        """How many more deliveries it takes, now or when it is open."""
        return max(0, self._most - len(self._members)) if self.phase in _TAKES else 0

    @property
    def is_open(self) -> bool:
        """Whether deliveries may be leased for it now."""
        return self.phase is Phase.OPEN and self.room > 0

    @property
    def is_starting(self) -> bool:
        """Whether deliveries may be leased for it soon."""
        return self.phase is Phase.STARTING and self.room > 0

    @property
    def has_begun(self) -> bool:
        """Whether its attempts may begin, or might."""
        return self._opened_at < math.inf

    @property
    def is_busy(self) -> bool:
        """Whether it keeps its worker busy."""
        return self.phase not in (Phase.RESTING, Phase.ENDED)

    def closes_soon(self, now: float) -> bool:
        """Whether it is time to start the next batch."""
        return self.room <= self._most // 2 or now > self._opened_at + NEXT_SECONDS

    @property
    def has_news(self) -> bool:
        """Whether `next_step` has something to do before the time for which it waits."""
        due = self._turns.are_due or bool(self._without_room())
        return due or self._given_up or self._is_complete or self._has_ended

    @property
    def arrived(self) -> list[str]:
        """Every delivery that was in it, in order of arrival."""
        return list(self._members)

    def stage(self, delivery_id: str) -> Stage:
        """How far a delivery is: LEFT if it never joined."""
        member = self._members.get(delivery_id)
        return Stage.LEFT if member is None else member.stage

    def endpoint_of(self, delivery_id: str) -> str:
        """The endpoint of a delivery that has joined."""
        return self._members[delivery_id].endpoint_id

    def fits(self, delivery_id: str, now: float, seconds: float) -> bool:
        """Whether something that takes this long ends before another worker may attempt the
        delivery."""
        member = self._members[delivery_id]
        if member.stage is Stage.LEFT or (self._given_up and member.stage is not Stage.BEHIND):
            return False
        return now + seconds <= member.leased_until

    # -- facts -------------------------------------------------------------------------------------

    def opened(self, now: float) -> None:
        """Its attempts may begin."""
        if not self.has_begun:
            self._opened_at, self._check_at = now, now + CHECK_SECONDS
        if self.phase is Phase.STARTING:
            self.phase = Phase.OPEN if self.room else Phase.CLOSED

    def leasing(self) -> None:
        """Deliveries are being leased for it."""
        self._leasing += 1

    def leased(self) -> None:
        """They have been leased, or not; if so, they have joined before."""
        self._leasing -= 1

    def joined(self, new: Collection[Joining], now: float) -> bool:
        """Add deliveries that were leased for it. False: it has ended, or is not open yet."""
        if not self.has_begun or self.phase is Phase.ENDED:
            return False
        if len(self._members) + len(new) > MOST:
            return False
        if not self._in_hand:
            self._check_at = now + CHECK_SECONDS
        self._add(new)
        if self.phase is Phase.OPEN and not self.room:
            self.phase = Phase.CLOSED
        return True

    def begin(self, delivery_id: str, now: float, *, needs: float) -> bool:
        """Begin the delivery's request, if so many seconds fit into its lease. False: it does not
        begin."""
        member = self._members[delivery_id]
        if member.stage is not Stage.LOADING or not self.fits(delivery_id, now, needs):
            return False
        member.stage, member.since = Stage.REQUESTED, now
        return True

    def answered(self, delivery_id: str) -> None:
        """Its request has ended. Another may begin while this one is recorded."""
        member = self._members[delivery_id]
        if member.stage is Stage.REQUESTED:
            member.stage = Stage.RECORDING
            self._turns.end(delivery_id)

    def done(self, delivery_id: str) -> None:
        """Nothing is left to do for it here."""
        self._leave(self._members[delivery_id], Stage.LEFT)

    def leased_until(self, delivery_id: str, leased_until: float) -> None:
        """Its lease ends at this time, as its row says."""
        self._members[delivery_id].leased_until = leased_until

    def endpoint_full(self, endpoint_id: str) -> None:
        """No more requests to this endpoint may begin now."""
        self._full_endpoints.add(endpoint_id)

    def stopped(self) -> None:
        """Its worker takes nothing any more."""
        if self.phase in _TAKES:
            self.phase = Phase.CLOSED

    def given_up(self) -> None:
        """Temporal waits for it no longer."""
        self._given_up = True

    def ended(self, now: float) -> None:
        """Nobody attempts its deliveries any more. Those that did not leave belong to it until
        their leases end."""
        self._end(now)
        self._let_go()

    # -- the next step -----------------------------------------------------------------------------

    def next_step(self, now: float) -> Step:
        """Return what to do now. Deliveries that a step names have begun their turn or have left
        with that: no other step names them again for the same reason."""
        if self._given_up:
            self._end(now)
            return GiveUp(self._let_go()) if self._in_hand else End()
        check = self._in_hand > 0 and now >= self._check_at
        if check:
            self._excuse(now)
        if now >= self._opened_at + LONGEST_SECONDS:
            self._end(now)
            if self._in_hand:
                return self._step_out(self._members.values())
        if self.phase is Phase.OPEN and now >= self._opened_at + OPEN_SECONDS:
            self.phase = Phase.CLOSED
        if check:
            if slow := self._slow(now):
                self._slow_endpoints |= {one.endpoint_id for one in slow}
                return self._step_out(slow)
            self._rest_if_slow(now)
        back = self._without_room()
        self._full_endpoints.clear()
        if back:
            return self._step_out(back)
        if self._turns.are_due:
            return Attempt(self._begin_turns())
        if self._has_ended or self._is_complete:
            self._end(now)
            return End()
        until = self._opened_at + LONGEST_SECONDS
        if self.phase is Phase.OPEN:
            until = min(until, self._opened_at + OPEN_SECONDS)
        return Wait(min(until, self._check_at) if self._in_hand else until)

    @property
    def _has_ended(self) -> bool:
        return self.phase is Phase.ENDED and not self._in_hand

    @property
    def _is_complete(self) -> bool:
        closed = self.phase in (Phase.CLOSED, Phase.RESTING)
        return closed and self.has_begun and not self._in_hand and not self._leasing

    def _without_room(self) -> list[_Member]:
        """Return the deliveries that have not begun, to endpoints that are full."""
        if not self._full_endpoints:
            return []
        unbegun = (one for one in self._members.values() if one.stage in _UNBEGUN)
        return [one for one in unbegun if one.endpoint_id in self._full_endpoints]

    def _excuse(self, now: float) -> None:
        late, self._check_at = now - self._check_at, now + CHECK_SECONDS
        for member in self._requested():
            member.since += late

    def _rest_if_slow(self, now: float) -> None:
        """Rest if only slow requests and deliveries behind them are left."""
        slow = [one for one in self._requested() if now - one.since > CHECK_SECONDS]
        requests = {one.delivery_id for one in slow}
        endpoints = {one.endpoint_id for one in slow}
        if self.phase is not Phase.RESTING and all(
            one.endpoint_id in endpoints and (one.stage in _UNBEGUN or one.delivery_id in requests)
            for one in self._members.values()
            if one.stage.in_hand
        ):
            self._rest(Phase.RESTING, now)

    def _requested(self) -> list[_Member]:
        return [one for one in self._members.values() if one.stage is Stage.REQUESTED]

    def _slow(self, now: float) -> list[_Member]:
        return [
            one
            for one in self._requested()
            if now - one.since
            > (CHECK_SECONDS if one.endpoint_id in self._slow_endpoints else SLOW.total_seconds())
        ]

    def _step_out(self, members: Iterable[_Member]) -> Leave:
        behind, back = [], []
        for member in members:
            if member.stage in _UNBEGUN:
                back.append(member.delivery_id)
                self._leave(member, Stage.LEFT)
            elif member.stage.in_hand:
                behind.append(member.delivery_id)
                self._leave(member, Stage.BEHIND)
        return Leave(behind, back)

    def _let_go(self) -> list[str]:
        members = [one for one in self._members.values() if one.stage.in_hand]
        for member in members:
            self._leave(member, Stage.LEFT)
        return [one.delivery_id for one in members]

    def _begin_turns(self) -> list[str]:
        turns = self._turns.take()
        for delivery_id in turns:
            self._members[delivery_id].stage = Stage.LOADING
        return turns

    # -- changes -----------------------------------------------------------------------------------

    def _add(self, new: Iterable[Joining]) -> None:
        for one in new:
            if one.delivery_id in self._members:
                continue
            member = _Member(one.delivery_id, one.endpoint_id, one.leased_until)
            self._members[one.delivery_id] = member
            self._in_hand += 1
            self.in_progress[one.endpoint_id] += 1
            if one.slow:
                self._slow_endpoints.add(one.endpoint_id)
            self._turns.join(one.delivery_id, one.endpoint_id)

    def _leave(self, member: _Member, stage: Stage) -> None:
        """Move the delivery out of the batch. From BEHIND, it can only go to LEFT."""
        if member.stage.in_hand:
            self._in_hand -= 1
            self.in_progress[member.endpoint_id] -= 1
            self._turns.end(member.delivery_id)
        member.stage = stage

    def _rest(self, phase: Phase, now: float) -> None:
        self.phase = phase
        if self.took is None and self.has_begun:
            self.took = now - self._opened_at

    def _end(self, now: float) -> None:
        if self.phase is not Phase.ENDED:
            self._rest(Phase.ENDED, now)


_TAKES: Final = (Phase.STARTING, Phase.OPEN)

"""The life of a delivery, as a state machine. Pure: storage keeps a `Life`, applies facts to it
under the row's lock, and stores the result. `next_step` tells the step activity what to do next.

    fact             WAITING, LIMITED   HELD               PAUSED             ended
    pause            PAUSED             PAUSED             ·                  ·
    resume           ·                  ·                  WAITING            ·
    resend           + resend           + resend           + resend           WAITING, next round
    cancel           CANCELLED          CANCELLED          CANCELLED          ·
    release          ·                  + released         ·                  ·
    held             HELD               HELD               PAUSED             ·
    limited          LIMITED            LIMITED            PAUSED             ·
    undeliverable    DEAD               DEAD               DEAD               ·
    attempt failed   WAITING or DEAD    WAITING or DEAD    PAUSED or DEAD     ·
    attempt got 410  GONE               GONE               GONE               ·
    attempt arrived  DELIVERED          DELIVERED          DELIVERED          ·

A dot means no change; "ended" is DELIVERED, DEAD, GONE and CANCELLED. "+ resend": the phase stays,
and the next step is an attempt. "+ released": the phase stays until that attempt has ended.

- *held*, *limited* and *undeliverable* concern one planned attempt. They count only while it is
  still the next step: a fact computed before the delivery moved on changes nothing.
- *undeliverable* and *attempt failed* concern the plan's own attempt. If an attempt beside the plan
  (a resend in its middle, a probe) is undeliverable or fails, plan and phase stay as they were; but
  a held resend that yields to the circuit stops being held. If a resend was requested while the
  plan's last attempt was in progress, the plan starts again instead of ending as DEAD.
- A delivery that has ended moves only by a resend, which starts its plan again (`round`), or by a
  cancel if it is a dead letter at the head of its lane: CANCELLED lets the next one go on. An
  attempt of an earlier round, or another try of an attempt that has counted, changes nothing.
- Time that is paused, held or limited does not use up the plan.
- While a batch makes the first attempt (`batch_until`), nobody else makes one: a delivery that is
  cancelled and resent meanwhile waits for its end. That lease is the outbox's: no fact changes it,
  and it means nothing once an attempt is recorded.
- A queued delivery is never attempted: a resend or resume of it takes effect when it is the head.
  Its plan has not begun, so waiting in line uses up none of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, TypeAlias, assert_never

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
from hookfast.deliveries.lane import Place
from hookfast.deliveries.outcome import DeliveryStatus, Reason
from hookfast.deliveries.retry_plan import Next, decide, parse_plan


class Phase(StrEnum):
    """What a delivery waits for, or how it ended."""

    WAITING = "waiting"  # until its plan's next attempt is due
    LIMITED = "limited"  # the attempt was due, but its endpoint's limits gave it a later turn
    HELD = "held"  # until its endpoint's circuit closes, or a paused endpoint is resumed
    PAUSED = "paused"  # until a person resumes it
    DELIVERED = "delivered"
    DEAD = "dead"
    GONE = "gone"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """Whether nothing more happens unless it is resent."""
        return self in _ENDED


_ENDED: Final = frozenset({Phase.DELIVERED, Phase.DEAD, Phase.GONE, Phase.CANCELLED})


@dataclass(frozen=True, slots=True)
class Resend:
    """A resend that was requested and not attempted yet.

    `yields_to_circuit`: it is one of many, and waits while deliveries are held; a person's single
    resend is attempted at once. `not_before`: its endpoint's limits gave it a later turn.
    """

    asked_at: datetime
    yields_to_circuit: bool = False
    not_before: datetime | None = None

    @property
    def at(self) -> datetime:
        """When it may be attempted."""
        return self.not_before or self.asked_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """Everything that decides what a delivery does next.

    `attempts` is the number of the last recorded attempt; `retries` counts the plan's retries.
    `due_at` is when the plan's next attempt is due; `recheck_at` is when a held delivery checks by
    itself whether it may be sent. `began_at` is when the plan's first attempt began. `excluded` is
    the time since then that does not use up the plan, without the current wait (`waiting_since`).
    `released`: the draining circuit has released it. `round` counts how often the plan was started
    again. `batch_until`: until then only a batch may make the first attempt; the outbox writes it.
    `place` is its place in its lane, None if it is delivered in any order.
    """

    phase: Phase = Phase.WAITING
    reason: Reason | None = None
    attempts: int = 0
    retries: int = 0
    due_at: datetime | None = None
    recheck_at: datetime | None = None
    began_at: datetime | None = None
    excluded: timedelta = timedelta(0)
    waiting_since: datetime | None = None
    resend: Resend | None = None
    released: bool = False
    round: int = 0
    last_error: str | None = None
    finished_at: datetime | None = None
    batch_until: datetime | None = None
    place: Place | None = None

    @property
    def status(self) -> DeliveryStatus:
        """The delivery's status, as the API shows it."""
        if self.phase in (Phase.WAITING, Phase.LIMITED):
            return DeliveryStatus.RETRYING if self.attempts else DeliveryStatus.PENDING
        return DeliveryStatus(self.phase.value)

    @property
    def position(self) -> int:
        """How many of the plan's attempts have counted."""
        return self.retries + (self.began_at is not None)

    @property
    def next_attempt_at(self) -> datetime | None:
        """When it is attempted, or checked, next by itself; None until somebody acts, or it is the
        head of its lane."""
        if self.place is Place.QUEUED:
            return None
        moments = [self.recheck_at if self.phase is Phase.HELD else self.due_at]
        if self.phase is Phase.PAUSED:
            moments = []
        if self.resend is not None and not (
            self.resend.yields_to_circuit and self.phase is Phase.HELD
        ):
            moments.append(self.resend.at)
        earliest = min((moment for moment in moments if moment is not None), default=None)
        if earliest is None or self.batched_until is None:
            return earliest
        return max(earliest, self.batched_until)

    @property
    def batched_until(self) -> datetime | None:
        """Until when only a batch may attempt it; None if any worker may."""
        return None if self.attempts else self.batch_until

    @property
    def blocks_lane(self) -> bool:
        """Whether it is a dead letter that the rest of its lane waits for."""
        return self.phase is Phase.DEAD and self.place is Place.HEAD

    @property
    def waited(self) -> bool:
        """Whether its endpoint's limits told it to come back later."""
        if self.resend is not None and self.resend.not_before is not None:
            return True
        return self.phase is Phase.LIMITED or (self.phase is Phase.HELD and not self.released)


# -- the next step --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do until this time; None: until somebody acts."""

    until: datetime | None


@dataclass(frozen=True, slots=True)
class End:
    """The delivery has ended."""


Step: TypeAlias = "AttemptPlan | Wait | End"


def next_step(life: Life, now: datetime, *, probe: bool = False, in_batch: bool = False) -> Step:
    """Return what a delivery does next. `probe`: its endpoint's circuit chose it to test whether
    the endpoint has recovered. `in_batch`: the caller is the batch that makes its first attempt."""
    if life.phase.ended:
        return End()
    if life.place is Place.QUEUED:
        return Wait(None)
    if not in_batch and life.batched_until is not None and now < life.batched_until:
        return Wait(life.next_attempt_at)
    resend, held = life.resend, life.phase is Phase.HELD
    if resend is not None and resend.at <= now and not (resend.yields_to_circuit and held):
        return _attempt(life, Trigger.RESEND)
    planned = Trigger.RETRY if life.attempts else Trigger.FIRST
    match life.phase:
        case Phase.PAUSED:
            pass
        case Phase.HELD:
            if probe:
                return _attempt(life, Trigger.PROBE)
            if _is_past(life.recheck_at, now):
                resend_is_due = resend is not None and resend.at <= now
                return _attempt(life, Trigger.RESEND if resend_is_due else planned)
        case _:
            if _is_past(life.due_at, now):
                return _attempt(life, planned)
    return Wait(life.next_attempt_at)


def _attempt(life: Life, trigger: Trigger) -> AttemptPlan:
    resend = life.resend if trigger is Trigger.RESEND else None
    in_plan = trigger is not Trigger.PROBE
    if resend is not None:
        # It begins the plan if nothing has. If the plan's own attempt is postponed, the resend is
        # made beside it and leaves it as it was.
        postponed = life.phase in (Phase.HELD, Phase.LIMITED) and not resend.yields_to_circuit
        in_plan = life.began_at is None and not postponed
    return AttemptPlan(
        number=life.attempts + 1,
        trigger=trigger,
        round=life.round,
        in_plan=in_plan,
        yields_to_circuit=resend is not None and resend.yields_to_circuit,
        resend_asked_at=None if resend is None else resend.asked_at,
        position=life.position if in_plan else 0,
    )


def _is_past(moment: datetime | None, now: datetime) -> bool:
    return moment is not None and moment <= now


# -- applying facts -------------------------------------------------------------------------------


def apply_fact(life: Life, fact: Fact, *, now: datetime) -> Life:
    """Return the life after a fact, which may have been computed from an earlier life."""
    match fact:
        case Action():
            return _after_action(life, fact, now)
        case AttemptEnded():
            return _after_attempt(life, fact, now)
        case Held() | Limited() | Undeliverable():
            probe = fact.attempt.trigger is Trigger.PROBE
            if next_step(life, now, probe=probe) != fact.attempt:
                return life
            return _postponed(life, fact, now)
        case _:
            assert_never(fact)


def _after_action(life: Life, action: Action, now: datetime) -> Life:
    match action:
        case Action.RESEND | Action.RESEND_YIELDING:
            return _resent(life, now, yields_to_circuit=action is Action.RESEND_YIELDING)
        case Action.LEAVE_LANE:
            return replace(life, place=Place.LEFT) if life.blocks_lane else life
        case Action.CANCEL if life.blocks_lane:
            return _ended(life, Phase.CANCELLED, None, now)
        case _ if life.phase.ended:
            return life
        case Action.PAUSE:
            since = life.waiting_since or now
            return replace(
                life,
                phase=Phase.PAUSED,
                reason=None,
                waiting_since=since,
                recheck_at=None,
                released=False,
            )
        case Action.RESUME:
            if life.phase is not Phase.PAUSED:
                return life
            resend = None if life.resend is None else replace(life.resend, not_before=None)
            return replace(_waiting(life, until=now), resend=resend)
        case Action.CANCEL:
            return _ended(life, Phase.CANCELLED, None, now)
        case Action.RELEASE:
            if life.phase is not Phase.HELD:
                return life
            return replace(life, released=True, recheck_at=now)
        case Action.CHECK_LIMITS:
            if life.resend is not None and life.phase is not Phase.HELD:
                life = replace(life, resend=replace(life.resend, not_before=None))
            return replace(life, due_at=now) if life.phase is Phase.LIMITED else life
        case Action.MOVE_UP:
            if life.place is not Place.QUEUED:
                return life
            return replace(life, place=Place.HEAD, due_at=max(now, life.due_at or now))
        case _:
            assert_never(action)


def _resent(life: Life, now: datetime, *, yields_to_circuit: bool) -> Life:
    if life.phase.ended:
        return _restarted(life, Resend(now, yields_to_circuit), now)
    if yields_to_circuit and (life.phase is Phase.HELD or life.resend is not None):
        return life  # it is sent anyway: now, or when the endpoint has recovered
    return replace(life, resend=Resend(now, yields_to_circuit))


def _restarted(life: Life, resend: Resend, now: datetime) -> Life:
    return Life(
        attempts=life.attempts,
        due_at=max(now, resend.at),
        resend=resend,
        round=life.round + 1,
        last_error=life.last_error,
        batch_until=life.batch_until,
        place=Place.QUEUED if life.place is Place.LEFT else life.place,
    )


def _postponed(life: Life, fact: Held | Limited | Undeliverable, now: datetime) -> Life:
    """Return the life after a planned attempt that is not made now. No attempt is used up."""
    beside = fact.attempt.trigger is Trigger.RESEND and not fact.attempt.in_plan
    match fact:
        case Undeliverable():
            life = replace(life, resend=None, last_error=fact.error)
            if not beside:
                return _ended(life, Phase.DEAD, fact.reason, now)
            return _waiting(life, until=now) if life.phase is Phase.HELD else life
        case Held():
            if life.phase is Phase.PAUSED:  # then the attempt is a resend
                return _resend_later(life, fact.until)
            return replace(
                life,
                phase=Phase.HELD,
                reason=fact.reason,
                recheck_at=fact.until,
                waiting_since=life.waiting_since or now,
                released=False,
            )
        case Limited() if fact.attempt.trigger is Trigger.PROBE:
            return replace(life, recheck_at=fact.until)
        case Limited() if fact.attempt.trigger is Trigger.RESEND:
            if life.phase is Phase.HELD and fact.attempt.yields_to_circuit:
                released = life.released
                life = replace(_waiting(life, until=now), released=released)
            if fact.attempt.in_plan and life.due_at is not None:
                # the plan begins with the resend, not before it
                life = replace(life, due_at=max(life.due_at, fact.until))
            return _resend_later(life, fact.until)
        case Limited():
            return replace(
                life,
                phase=Phase.LIMITED,
                reason=Reason.ENDPOINT_LIMIT,
                due_at=fact.until,
                recheck_at=None,
                waiting_since=life.waiting_since or now,
            )
        case _:
            assert_never(fact)


def _resend_later(life: Life, until: datetime) -> Life:
    resend = None if life.resend is None else replace(life.resend, not_before=until)
    return replace(life, resend=resend)


def _after_attempt(life: Life, fact: AttemptEnded, now: datetime) -> Life:
    attempt, outcome = fact.attempt, fact.outcome
    if attempt.in_plan:
        is_new = attempt.position == life.position
    elif attempt.trigger is Trigger.RESEND:
        is_new = life.resend is not None and life.resend.asked_at == attempt.resend_asked_at
    else:
        is_new = attempt.number > life.attempts
    counted = replace(life, attempts=max(life.attempts, attempt.number))
    if life.phase.ended or attempt.round != life.round:
        return counted
    if is_new and attempt.trigger is Trigger.RETRY and life.began_at is not None:
        counted = replace(counted, retries=life.retries + 1)
    if outcome.succeeded:
        return _ended(replace(counted, resend=None), Phase.DELIVERED, None, now)
    if outcome.gone:
        gone = replace(counted, resend=None, last_error=outcome.error)
        return _ended(gone, Phase.GONE, Reason.GONE, now)
    if not is_new:
        return counted
    counted = replace(counted, last_error=outcome.error)
    if counted.resend is not None and counted.resend.asked_at == attempt.resend_asked_at:
        counted = replace(counted, resend=None)
    if attempt.in_plan:
        return _continue_plan(counted, fact, now)
    if counted.phase is Phase.HELD and attempt.yields_to_circuit:
        return _waiting(counted, until=_end_of_wait(counted, fact, now))
    return replace(counted, released=False, excluded=counted.excluded + _delay_caused(life, fact))


def _delay_caused(life: Life, fact: AttemptEnded) -> timedelta:
    """How long an attempt beside the plan delayed the plan's own attempt, which was due."""
    if life.phase is not Phase.WAITING or life.began_at is None or life.due_at is None:
        return timedelta(0)
    return max(timedelta(0), fact.ended_at - max(fact.started_at, life.due_at))


def _continue_plan(life: Life, fact: AttemptEnded, now: datetime) -> Life:
    """Return the life after the plan's own attempt failed: the next one is due, or it has ended."""
    life = replace(life, began_at=life.began_at or fact.started_at)
    if life.phase is not Phase.PAUSED:
        life = _waiting(life, until=_end_of_wait(life, fact, now))
    plan = replace(parse_plan(fact.plan), timeout=fact.timeout_seconds)
    decision = decide(
        plan,
        fact.outcome,
        retries_used=life.retries,
        elapsed=_elapsed(life, fact.ended_at).total_seconds(),
        random=fact.jitter,
    )
    if decision.next is Next.RETRY:
        return replace(life, due_at=fact.ended_at + timedelta(seconds=decision.delay))
    reason = None if decision.reason is None else Reason(decision.reason)
    return _ended(life, Phase.DEAD, reason, now)


def _end_of_wait(life: Life, fact: AttemptEnded, now: datetime) -> datetime:
    """Return when the current wait ended: when the attempt began, unless that was before it."""
    before = life.waiting_since is not None and fact.started_at < life.waiting_since
    return now if before else fact.started_at


def _waiting(life: Life, *, until: datetime) -> Life:
    """Return the life after being paused, held or limited has ended, at `until`."""
    return replace(
        life,
        phase=Phase.WAITING,
        reason=None,
        excluded=life.excluded + _waited(life, until),
        waiting_since=None,
        recheck_at=None,
        released=False,
    )


def _waited(life: Life, until: datetime) -> timedelta:
    """How long the current wait has lasted, as far as it lies within the plan's time."""
    if life.waiting_since is None or life.began_at is None:
        return timedelta(0)
    return max(timedelta(0), until - max(life.waiting_since, life.began_at))


def _elapsed(life: Life, now: datetime) -> timedelta:
    """How much of the plan's time is used up."""
    if life.began_at is None:
        return timedelta(0)
    return max(timedelta(0), now - life.began_at - life.excluded - _waited(life, now))


def _ended(life: Life, phase: Phase, reason: Reason | None, now: datetime) -> Life:
    if phase is Phase.DEAD and life.resend is not None:
        # A resend was requested while it was ending: treat it as requested a moment later.
        return _restarted(life, life.resend, now)
    # A dead letter stays the head of its lane until it leaves, is resent or cancelled.
    stays = life.place is None or (phase is Phase.DEAD and life.place is Place.HEAD)
    return replace(
        life,
        place=life.place if stays else Place.LEFT,
        phase=phase,
        reason=reason,
        due_at=None,
        recheck_at=None,
        waiting_since=None,
        resend=None,
        released=False,
        finished_at=now,
    )

"""The stored lives of deliveries. `apply` is the only code that writes a delivery's state: it locks
the rows, applies facts to the current lives, and saves the results.

Rows are locked in the order of their ids, before anything else that is locked with them: endpoints,
circuits, limits. Two transactions that share rows always wait for each other in the same order.

The outbox columns (`started_at`, `leased_until`, `wake_count`, `urgency`) say whether the workflow
knows of a change; `batch_id` and `batch_until` lease a delivery to a batch. Code that changes a
life from outside its workflow puts the row into the outbox in the same transaction (`wake`), so
that a crash right after the commit loses no action. A batch does so after each first attempt that
does not finish its delivery, which then gets its own workflow.

If the head of a lane leaves it, the next delivery moves up in the same transaction, so that a crash
at any line leaves either the old head or the new one, which is in the outbox.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.answer import LastAnswer
from hookfast.deliveries.facts import Action, AttemptEnded, Fact, Trigger
from hookfast.deliveries.figures import Owner, State, Tally, minute_of_id
from hookfast.deliveries.lane import DeadLetterPolicy, Place
from hookfast.deliveries.life import Life, Phase, apply_fact, next_step
from hookfast.deliveries.messages import Urgency
from hookfast.deliveries.outcome import Reason
from hookfast.storage.counting import entries
from hookfast.storage.database.after_commit import after_commit
from hookfast.storage.database.prepared import Writes
from hookfast.storage.deliveries import life_rows
from hookfast.storage.deliveries.life_log import log_transitions, report_ended
from hookfast.storage.deliveries.life_rows import LifeChange, Locked
from hookfast.storage.events import lanes
from hookfast.storage.owners.notifications import deliveries_dead


def _newest_answer(known: LastAnswer | None, ended: AttemptEnded, life: Life) -> LastAnswer | None:
    """Return the answer to the newest attempt, after an attempt was recorded: `life` is the one
    before it. Numbers count before times, because hosts' clocks differ. Two attempts have the same
    number if the first one's worker was frozen."""
    number, outcome = ended.attempt.number, ended.outcome
    if number < life.attempts:
        return known
    if number == life.attempts and known is not None and ended.started_at < known.attempt_at:
        return known
    return LastAnswer(ended.started_at, outcome.result, outcome.status_code, outcome.duration_ms)


async def apply(
    connection: AsyncConnection,
    facts: Iterable[tuple[str, Fact]],
    *,
    now: datetime,
    wake: int | None = None,
    batched: Collection[str] = (),
    locked: Mapping[str, Locked] | None = None,
    traces: Mapping[str, str] | None = None,
    dead_letters: DeadLetterPolicy = DeadLetterPolicy.CONTINUE,
    tally: Tally | None = None,
    together_with: Writes | None = None,
) -> dict[str, LifeChange]:
    """Apply facts, each with its delivery's id, in order, to the current lives. Returns a change
    for every delivery that has a row. `locked` avoids locking the rows twice. Deliveries that end
    are counted and logged after the commit, with their trace ids from `traces`.

    Without `wake`, the facts come from the delivery's own workflow, which acts on the result; but
    an attempt that a later step did not wait for is unknown to it, so it is woken. With `wake`,
    changed deliveries go into the outbox with that urgency, so that their workflow is woken. The
    facts of deliveries in `batched` come from a batch: a delivered one is done, and any other
    continues in its own workflow, as does one that requested a workflow in the meantime.
    `dead_letters` says whether deliveries that end as dead letters leave their lanes. `tally` has
    what the caller counted in this transaction, and is written with the changes, as is
    `together_with`.
    """
    facts = list(facts)
    attempted = {delivery_id for delivery_id, fact in facts if isinstance(fact, AttemptEnded)}
    late: set[str] = set()
    if locked is None:
        locked = await life_rows.lock(connection, {delivery_id for delivery_id, _ in facts})
    lives = {delivery_id: one.life for delivery_id, one in locked.items()}
    answers = {delivery_id: one.answer for delivery_id, one in locked.items()}
    for delivery_id, fact in facts:
        if (life := lives.get(delivery_id)) is None:
            continue
        if isinstance(fact, AttemptEnded):
            answers[delivery_id] = _newest_answer(answers[delivery_id], fact, life)
            if delivery_id not in batched and _is_late(life, fact, now):
                late.add(delivery_id)
        lives[delivery_id] = apply_fact(life, fact, now=now)
        if _leaves_lane(lives[delivery_id], life, dead_letters):
            lives[delivery_id] = apply_fact(lives[delivery_id], Action.LEAVE_LANE, now=now)
    changes = {key: LifeChange(one, lives[key], answers[key]) for key, one in locked.items()}
    changed = [
        one
        for one in changes.values()
        if one.after != one.before or one.answer is not one.locked.answer
    ]
    silent: list[LifeChange] = []
    woken: list[tuple[LifeChange, int]] = []
    for one in changed:
        urgency = wake
        done = one.after.phase is Phase.DELIVERED and not locked[one.delivery_id].wake_count
        if one.delivery_id in batched and not done:
            urgency = Urgency.RETRY
        if one.delivery_id in late and _is_news(one):
            urgency = Urgency.RETRY
        if one.after.place is Place.QUEUED or one.never_started:
            urgency = None  # no workflow exists, or it has nothing to do before the delivery's turn
        if urgency is None:
            silent.append(one)
        else:
            woken.append((one, urgency))
    writes = together_with or Writes()
    life_rows.save(writes, silent, now=now)
    life_rows.save_and_wake(writes, woken, now=now)
    _count(writes, changed, tally or Tally())
    await writes.run(connection)
    # before others move up, so that the lines are in the order of what happened
    if ended := [one for one in changed if one.ended]:
        after_commit(connection, partial(report_ended, ended, traces or {}))
    # an attempt has a line of its own, which says how the delivery goes on
    if others := [one for one in changed if one.delivery_id not in attempted]:
        after_commit(connection, partial(log_transitions, others))
    changes |= await _move_lanes(connection, changed, now=now)
    dead = [one.delivery_id for one in changed if one.died]
    await deliveries_dead(connection, dead, now=now)
    return changes


def _is_late(life: Life, ended: AttemptEnded, now: datetime) -> bool:
    """Whether another step has changed the delivery since this attempt was planned: its worker was
    frozen, and Temporal had the step repeated. The workflow has the result of that other step."""
    probe = ended.attempt.trigger is Trigger.PROBE
    return next_step(life, now, probe=probe) != ended.attempt


def _is_news(change: LifeChange) -> bool:
    """Whether a workflow that knows the life before has to do something else now."""
    before, after = change.before, change.after
    return change.ended or (
        not before.phase.ended and after.next_attempt_at != before.next_attempt_at
    )


def _leaves_lane(life: Life, before: Life, policy: DeadLetterPolicy) -> bool:
    """Whether a delivery that has just become a dead letter leaves its lane. That of a deleted
    endpoint does in any case: nobody could send it again."""
    if not life.blocks_lane or before.phase is Phase.DEAD:
        return False
    return policy is DeadLetterPolicy.CONTINUE or life.reason is Reason.ENDPOINT_DELETED


async def _move_lanes(
    connection: AsyncConnection, changed: Collection[LifeChange], *, now: datetime
) -> dict[str, LifeChange]:
    """Let the next deliveries move up where these left the head of their lane or joined the line.
    Returns those of the given changes that moved up."""
    left = {one.delivery_id for one in changed if one.left_lane}
    moving = {one.locked.lane for one in changed if one.left_lane or one.joined_line}
    lane_ids = {lane for lane in moving if lane is not None}
    if not lane_ids:
        return {}
    moved = await advance(connection, lane_ids, left=left, now=now)
    before = {one.delivery_id: one for one in changed}
    return {
        key: before[key]._replace(after=one.after) for key, one in moved.items() if key in before
    }


async def advance(
    connection: AsyncConnection,
    lane_ids: Collection[str],
    *,
    left: Collection[str] = (),
    now: datetime,
) -> dict[str, LifeChange]:
    """Let the first queued delivery of each of these lanes move up, if the lane has no head or its
    head is in `left`. Returns their changes; ring the doorbell after the commit.

    A row that another transaction has locked is never waited for (it may wait for this lane) nor
    passed over (that would break the order): the lane is marked, and a worker tries again.
    """
    locked = await lanes.lock(connection, lane_ids, now=now)
    free = [one for one in locked.values() if one.head is None or one.head in left]
    if not free:
        return {}
    # in statements after the locks, so that they see everything committed before them
    first = await lanes.first_queued(connection, [lane.id for lane in free])
    found = await life_rows.lock_queued(connection, first.values())
    changes = {
        key: LifeChange(one, apply_fact(one.life, Action.MOVE_UP, now=now), one.answer)
        for key, one in found.items()
    }
    new = [one for one in changes.values() if one.never_started]
    known = [(one, _urgency_of(one)) for one in changes.values() if not one.never_started]
    writes = Writes()
    life_rows.save_and_start(writes, new, now=now)
    life_rows.save_and_wake(writes, known, now=now)
    _count(writes, changes.values(), Tally())
    await writes.run(connection)
    after_commit(connection, partial(log_transitions, changes.values()))
    after = [
        replace(
            lane,
            head=first[lane.id] if first.get(lane.id) in found else None,
            needs_head=lane.id in first and first[lane.id] not in found,
        )
        for lane in free
    ]
    await lanes.save(connection, [one for one in after if one != locked[one.id]], now=now)
    return changes


def _count(writes: Writes, changes: Iterable[LifeChange], tally: Tally) -> None:
    """Count these changes, and write the tally with them."""
    for one in changes:
        count_change(tally, one)
    entries.add(writes, tally.numbers())


def count_change(tally: Tally, change: LifeChange) -> None:
    """Count a change of a delivery. A dead letter that is cancelled ends once more."""
    before, after = change.before, change.after
    owner = Owner(change.locked.tenant_id, change.endpoint_id, change.locked.event_type)
    state = _state_of(after)
    tally.delivery(owner, minute_of_id(change.delivery_id), _state_of(before), state)
    if after.phase.ended and _end_of(after) != _end_of(before):
        took = None
        if after.phase is Phase.DELIVERED and not after.round:
            took = _since(change.locked.due_from, after.finished_at)
        tally.ended(owner, state, took=took)


def _end_of(life: Life) -> tuple[Phase, datetime | None]:
    # not the time alone: a dead letter can be cancelled in the same microsecond
    return life.phase, life.finished_at


def _state_of(life: Life) -> State:
    return State(life.status, life.reason, life.finished_at, life.place is Place.QUEUED)


def _since(due: datetime | None, end: datetime | None) -> timedelta | None:
    return None if due is None or end is None else max(timedelta(0), end - due)


def _urgency_of(moved_up: LifeChange) -> int:
    resend = moved_up.after.resend
    of_job = resend is not None and resend.yields_to_circuit
    return Urgency.JOB if of_job else Urgency.RETRY

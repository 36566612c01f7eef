"""The names of what happens to a delivery besides its attempts and its end."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from hookfast.deliveries.facts import Action, Held, Limited
from hookfast.deliveries.lane import Place
from hookfast.deliveries.life import Life, Phase, Resend, apply_fact, next_step
from hookfast.deliveries.outcome import Reason
from hookfast.deliveries.transition import Transition, transitions

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=6)
WAITING = Life(due_at=NOON)
HELD = replace(
    WAITING, phase=Phase.HELD, reason=Reason.CIRCUIT_OPEN, recheck_at=NOON, waiting_since=NOON
)
LIMITED = replace(WAITING, phase=Phase.LIMITED, reason=Reason.ENDPOINT_LIMIT)
PAUSED = replace(WAITING, phase=Phase.PAUSED)
DEAD = Life(phase=Phase.DEAD)


@pytest.mark.parametrize(
    ("before", "action", "expected"),
    [
        (WAITING, Action.PAUSE, [Transition.PAUSED]),
        (HELD, Action.PAUSE, [Transition.PAUSED]),
        (PAUSED, Action.PAUSE, []),
        (PAUSED, Action.RESUME, [Transition.RESUMED]),
        (WAITING, Action.RESUME, []),
        (WAITING, Action.RESEND, [Transition.RESENT]),
        (DEAD, Action.RESEND, [Transition.RESENT]),
        (HELD, Action.RESEND_YIELDING, []),  # it is sent anyway
        (HELD, Action.RELEASE, [Transition.RELEASED]),
        (replace(HELD, released=True), Action.RELEASE, []),
        (LIMITED, Action.CHECK_LIMITS, []),
        (WAITING, Action.CANCEL, []),  # it has a line about its end
        (replace(WAITING, place=Place.QUEUED), Action.MOVE_UP, [Transition.MOVED_UP]),
        (
            replace(DEAD, place=Place.LEFT),
            Action.RESEND,
            [Transition.RESENT, Transition.QUEUED],
        ),
    ],
)
def test_an_action_has_the_transitions_that_it_causes(
    before: Life, action: Action, expected: list[Transition]
) -> None:
    assert transitions(before, apply_fact(before, action, now=NOON)) == expected


@pytest.mark.parametrize(
    ("before", "reason", "expected"),
    [
        (WAITING, Reason.CIRCUIT_OPEN, [Transition.HELD]),
        (HELD, Reason.CIRCUIT_OPEN, []),  # only longer
        (HELD, Reason.CIRCUIT_DRAINING, [Transition.HELD]),
    ],
)
def test_a_hold_is_a_transition_unless_it_only_continues(
    before: Life, reason: Reason, expected: list[Transition]
) -> None:
    attempt = next_step(before, NOON)
    after = apply_fact(before, Held(attempt, reason, LATER), now=NOON)  # type: ignore[arg-type]
    assert after.recheck_at == LATER
    assert transitions(before, after) == expected


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (WAITING, [Transition.LIMITED]),
        (LIMITED, []),
        (replace(WAITING, resend=Resend(NOON)), [Transition.LIMITED]),
        (replace(WAITING, resend=Resend(NOON, not_before=NOON)), []),
    ],
)
def test_a_later_turn_is_a_transition_once(before: Life, expected: list[Transition]) -> None:
    attempt = next_step(before, NOON)
    after = apply_fact(before, Limited(attempt, LATER), now=NOON)  # type: ignore[arg-type]
    assert after != before
    assert transitions(before, after) == expected

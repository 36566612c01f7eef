"""The life of a delivery in a lane: it is sent only as its head, and ends as the rest waits for it
or goes on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hookfast.deliveries.facts import Action, Trigger
from hookfast.deliveries.lane import MAX_ORDERING_KEY, Place, lane_id, ordering_key_of
from hookfast.deliveries.life import Life, Phase, Wait, apply_fact, next_step
from tests.unit.deliveries.test_life import NO_RETRIES, NOON, apply, at, attempted, planned

QUEUED = Life(due_at=NOON, place=Place.QUEUED)
HEAD = replace(QUEUED, place=Place.HEAD)
DEAD = attempted(HEAD, 503, started=0, plan=NO_RETRIES)


def test_queued_delivery_is_sent_when_it_is_the_head() -> None:
    assert next_step(QUEUED, at(10_000)) == Wait(None)
    life = apply(QUEUED, (50, Action.MOVE_UP))
    assert (life.place, life.due_at) == (Place.HEAD, at(50))
    assert planned(life, 50).trigger is Trigger.FIRST


@pytest.mark.parametrize("action", [Action.RESEND, Action.RESEND_YIELDING])
def test_resend_of_a_queued_delivery_waits_for_its_turn(action: Action) -> None:
    life = apply(QUEUED, (10, action))
    assert next_step(life, at(20)) == Wait(None)
    attempt = planned(apply(life, (30, Action.MOVE_UP)), 30)
    assert (attempt.trigger, attempt.in_plan) == (Trigger.RESEND, True)


def test_queued_delivery_that_was_paused_blocks_its_lane_as_the_head() -> None:
    life = apply(QUEUED, (10, Action.PAUSE), (20, Action.MOVE_UP))
    assert (life.place, life.phase) == (Place.HEAD, Phase.PAUSED)
    assert next_step(life, at(30)) == Wait(None)
    assert planned(apply(life, (40, Action.RESUME)), 40).trigger is Trigger.FIRST


def test_cancelled_delivery_leaves_its_lane() -> None:
    for life in (QUEUED, HEAD):
        assert apply(life, (10, Action.CANCEL)).place is Place.LEFT


@pytest.mark.parametrize("status", [200, 410])
def test_delivered_or_gone_head_leaves_its_lane(status: int) -> None:
    assert attempted(HEAD, status, started=0).place is Place.LEFT


def test_failed_head_stays_the_head_while_it_is_retried() -> None:
    assert attempted(HEAD, 503, started=0).place is Place.HEAD


def test_dead_head_waits_until_it_leaves_is_cancelled_or_resent() -> None:
    assert DEAD.blocks_lane
    left = apply(DEAD, (20, Action.LEAVE_LANE))
    assert (left.phase, left.place, left.finished_at) == (Phase.DEAD, Place.LEFT, DEAD.finished_at)
    cancelled = apply(DEAD, (20, Action.CANCEL))
    assert (cancelled.phase, cancelled.place) == (Phase.CANCELLED, Place.LEFT)
    resent = apply(DEAD, (20, Action.RESEND))
    assert (resent.place, resent.round) == (Place.HEAD, 1)
    assert planned(resent, 20).trigger is Trigger.RESEND


def test_ended_delivery_that_is_resent_queues_again() -> None:
    life = apply(DEAD, (20, Action.LEAVE_LANE), (30, Action.RESEND))
    assert (life.place, life.round) == (Place.QUEUED, 1)
    assert next_step(life, at(9_000)) == Wait(None)
    assert planned(apply(life, (40, Action.MOVE_UP)), 40).trigger is Trigger.RESEND


def test_cancel_of_a_dead_letter_without_lane_changes_nothing() -> None:
    dead = replace(DEAD, place=None)
    for action in (Action.CANCEL, Action.LEAVE_LANE, Action.MOVE_UP):
        assert apply_fact(dead, action, now=at(20)) == dead


@pytest.mark.parametrize("key", [None, "a", "/", "a/b", "é" * MAX_ORDERING_KEY])
def test_lane_id_keeps_the_ordering_key(key: str | None) -> None:
    assert ordering_key_of(lane_id("sub_1", key)) == key

"""The words for states and reasons, in both tones."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime

import pytest

from hookfast.deliveries.lane import Place
from hookfast.deliveries.messages import StepResult
from hookfast.deliveries.outcome import DeliveryStatus, Reason
from hookfast.deliveries.wording import (
    REASON_LIST,
    Tone,
    customer_label,
    next_step,
    reason_text,
    state,
)

JARGON = ("circuit", "dead letter", "retry plan", "probe", "lane", "mapping")


@pytest.mark.parametrize("tone", Tone)
@pytest.mark.parametrize("reason", Reason)
def test_every_reason_is_said_in_words(reason: Reason, tone: Tone) -> None:
    assert "_" not in reason_text(reason, tone)
    assert reason_text(reason, tone) != reason.value.replace("_", " ")


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason.waits])
def test_a_reason_to_wait_says_what_happens_next(reason: Reason) -> None:
    said = [next_step(DeliveryStatus.HELD, reason, tone=tone) for tone in Tone]
    assert all(sentence.endswith(".") for sentence in said)
    others = {
        next_step(DeliveryStatus.HELD, other, tone=Tone.OPERATOR)
        for other in Reason
        if other is not reason
    }
    assert said[0] not in others


def test_customers_read_no_jargon() -> None:
    for status, reason in itertools.product(DeliveryStatus, [None, *Reason]):
        said = [
            customer_label(status),
            state(status, reason, tone=Tone.CUSTOMER),
            next_step(status, reason, tone=Tone.CUSTOMER),
        ]
        assert not [word for word in JARGON for text in said if word in text.lower()], said


def test_an_unknown_reason_is_shown_by_its_name() -> None:
    assert reason_text("of_a_later_version") == "of a later version"


def test_the_documentation_lists_every_reason() -> None:
    assert [f"`{reason}`: " in REASON_LIST for reason in Reason] == [True] * len(Reason)


def test_temporal_shows_since_when_a_delivery_is_held_and_what_happens_next() -> None:
    result = StepResult(
        DeliveryStatus.HELD,
        Reason.CIRCUIT_HALF_OPEN,
        attempts=2,
        next_at=datetime(2026, 11, 20, 18, tzinfo=UTC),
        waits_for="a check (the endpoint's circuit is half-open)",
        held_since=datetime(2026, 11, 20, 12, tzinfo=UTC),
    )
    first, check, following = result.text(78).split("  \n")
    assert first.startswith("**held**, waiting since 20")
    assert check.startswith("next: a check (the endpoint's circuit is half-open), 20")
    assert following == next_step(DeliveryStatus.HELD, Reason.CIRCUIT_HALF_OPEN, tone=Tone.OPERATOR)


@pytest.mark.parametrize("status", [DeliveryStatus.PENDING, DeliveryStatus.RETRYING])
def test_customer_sees_that_a_queued_delivery_waits(status: DeliveryStatus) -> None:
    assert customer_label(status, Place.QUEUED) == "waiting"
    assert customer_label(status, Place.HEAD) in ("sending", "retrying")

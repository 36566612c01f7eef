"""The intake processes each message once, however often it is sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from hookfast.deliveries.outcome import Outcome, Result
from hookfast.deliveries.retry_plan import PRESETS, Next, RetryPlan, decide
from hookfast.receiver import (
    Answer,
    Fresh,
    Intake,
    MemoryStore,
    Misconfigured,
    Replayed,
    ReplayGuard,
    Verifier,
    Webhook,
)
from tests.unit.receiver.signing import ALL, BODY, ID, KEY, NOW, SECRET, TIME, key_set, signed


def verifier(*profiles: Any, seconds_later: float = 0) -> Verifier:
    now = NOW + timedelta(seconds=seconds_later)
    return Verifier(
        SECRET, public_keys=key_set(), profiles=profiles or ["standard"], clock=lambda: now
    )


def opened(intake: Intake, headers: Mapping[str, str], body: bytes = BODY) -> Webhook:
    webhook = intake.open(headers, body)
    assert isinstance(webhook, Webhook)
    return webhook


def answered(intake: Intake, headers: Mapping[str, str], body: bytes = BODY) -> Answer:
    answer = intake.open(headers, body)
    assert isinstance(answer, Answer)
    return answer


def code(answer: Answer) -> str:
    assert answer.headers["Content-Type"] == "application/problem+json"
    document = json.loads(answer.body)
    assert document["status"] == answer.status
    name: str = document["code"]
    return name


def test_a_verified_message_is_opened_with_its_body() -> None:
    webhook = opened(Intake(verifier()), signed("standard"))
    assert webhook.message_id == ID
    assert webhook.json()["data"] == {"amount": 7}


@pytest.mark.parametrize("digits", ["12345678901234567890", "-" + "9" * 4_300, "9" * 4_301])
def test_an_integer_of_any_length_is_read_with_all_its_digits(digits: str) -> None:
    body = b'{"data":%s}' % digits.encode()
    number = opened(Intake(verifier()), signed("standard", body=body), body).json()["data"]
    assert number == Decimal(digits)


def test_a_forged_request_gets_a_problem_that_says_why() -> None:
    answer = answered(Intake(verifier()), signed("standard"), BODY + b" ")
    assert (answer.status, code(answer)) == (401, "wrong_signature")
    assert "WWW-Authenticate" in answer.headers


def test_a_repeated_message_gets_the_first_response() -> None:
    intake = Intake(verifier(), store=MemoryStore())
    first = intake.finish(opened(intake, signed("standard")), b"booked")
    again = answered(intake, signed("standard", timestamp=TIME + 60))
    assert (first.status, first.body) == (again.status, again.body) == (200, b"booked")
    assert again.headers["Idempotent-Replayed"] == "true"
    assert "Idempotent-Replayed" not in first.headers


@pytest.mark.parametrize("result", ["\ud800", {"ok": True}, 42])
def test_a_result_that_cannot_be_sent_does_not_keep_a_message_from_being_done(
    result: Any, caplog: pytest.LogCaptureFixture
) -> None:
    intake = Intake(verifier(), store=MemoryStore())
    first = intake.finish(opened(intake, signed("standard")), result)
    assert (first.status, first.body) == (204, b"")
    assert type(result).__name__ in caplog.text
    assert answered(intake, signed("standard")).status == 204


def test_a_message_in_progress_is_answered_503() -> None:
    intake = Intake(verifier(), store=MemoryStore())
    opened(intake, signed("standard"))
    answer = answered(intake, signed("standard"))
    assert (answer.status, code(answer)) == (503, "in_progress")
    assert "Retry-After" in answer.headers


def test_an_abandoned_message_can_be_opened_again() -> None:
    store = MemoryStore()
    intake = Intake(verifier("hook"), store=store, replay_guard=ReplayGuard(store))
    intake.abandon(opened(intake, signed("hook")))
    opened(intake, signed("hook"))


def test_a_full_store_is_answered_503() -> None:
    intake = Intake(verifier(), store=MemoryStore(max_entries=1))
    opened(intake, signed("standard"))
    answer = answered(intake, signed("standard", message_id="dlv_2"))
    assert (answer.status, code(answer)) == (503, "store_full")


@pytest.mark.parametrize("profile", ["rsa", "standard-ed25519", "standard", "nonce", "hook"])
def test_the_same_signed_request_is_accepted_once(profile: str) -> None:
    intake = Intake(verifier(profile), replay_guard=ReplayGuard(MemoryStore()))
    opened(intake, signed(profile))
    # only the `standard` profiles sign the id, so another id is still the same message
    answer = answered(intake, signed(profile) | {"X-Hook-Id": "dlv_other", "X-Hook-Attempt": "4"})
    assert (answer.status, code(answer)) == (503, "replayed")
    opened(intake, signed(profile, timestamp=TIME + 1))  # Hookfast's next attempt


@pytest.mark.parametrize("plan", PRESETS.values(), ids=PRESETS)
@pytest.mark.parametrize("profile", ["rsa", "hook"])
def test_another_delivery_of_the_same_body_and_second_passes_at_its_retry(
    profile: str, plan: RetryPlan
) -> None:
    # one event through two subscriptions to one endpoint; these profiles do not sign the id
    store = MemoryStore()
    intake = Intake(verifier(profile), store=store, replay_guard=ReplayGuard(store))
    for message_id in ("dlv_a", "dlv_b"):
        answer = intake.open(signed(profile, message_id=message_id), BODY)
        if isinstance(answer, Webhook):
            answer = intake.finish(answer)
    assert (answer.status, code(answer)) == (503, "replayed")
    outcome = Outcome(
        result=Result.STATUS,
        duration_ms=1,
        status_code=answer.status,
        retry_after_seconds=float(answer.headers["Retry-After"]),
    )
    decision = decide(plan, outcome, retries_used=0, elapsed=0, random=0)
    assert decision.next is Next.RETRY
    assert decision.delay >= 1  # so the next attempt signs another second
    opened(intake, signed(profile, message_id="dlv_b", timestamp=TIME + int(decision.delay)))


def test_a_message_is_remembered_as_long_as_its_time_is_within_tolerance() -> None:
    leases: list[timedelta] = []

    class Store(MemoryStore):
        def begin(self, key: str, *, lease: timedelta) -> Any:
            leases.append(lease)
            return super().begin(key, lease=lease)

    guard = ReplayGuard(Store())
    for seconds in (-300, 0, 300):
        guard.admit(
            verifier(seconds_later=seconds).verify(signed("standard", timestamp=TIME), BODY)
        )
        guard = ReplayGuard(Store())
    assert [lease.total_seconds() for lease in leases] == [660, 360, 60]


def test_a_repeated_finished_message_is_not_rejected_as_a_replay() -> None:
    store = MemoryStore()
    intake = Intake(verifier("hook"), store=store, replay_guard=ReplayGuard(store))
    intake.finish(opened(intake, signed("hook")))
    assert answered(intake, signed("hook")).status == 204


def test_a_rejected_replay_leaves_no_claim() -> None:
    store = MemoryStore()
    intake = Intake(verifier("hook"), store=store, replay_guard=ReplayGuard(store))
    opened(intake, signed("hook"))
    forged = signed("hook") | {"X-Hook-Id": "dlv_other"}
    assert code(answered(intake, forged)) == "replayed"
    assert isinstance(store.begin("dlv_other", lease=timedelta(minutes=1)), Fresh)


@pytest.mark.parametrize("profiles", [["body"], ["hook", "standard"], list(ALL)])
def test_a_guard_needs_one_profile_that_signs_a_time(profiles: list[str]) -> None:
    with pytest.raises(Misconfigured, match="exactly one profile"):
        Intake(verifier(*profiles), replay_guard=ReplayGuard(MemoryStore()))


def test_a_guard_rejects_a_profile_without_a_time() -> None:
    verified = verifier("body").verify(signed("body"), BODY)
    with pytest.raises(Misconfigured):
        ReplayGuard(MemoryStore()).admit(verified)


def test_a_replayed_message_raises_replayed() -> None:
    guard = ReplayGuard(MemoryStore())
    verified = verifier().verify(signed("standard"), BODY)
    guard.forget(guard.admit(verified))
    guard.admit(verified)
    with pytest.raises(Replayed):
        guard.admit(verified)


def test_with_the_body_profile_another_id_is_the_same_message() -> None:
    intake = Intake(verifier("body"), store=MemoryStore())
    intake.finish(opened(intake, signed("body")))
    answer = answered(intake, signed("body") | {"X-Webhook-ID": "dlv_other"})
    assert answer.headers["Idempotent-Replayed"] == "true"


def test_work_that_outlives_its_lease_is_answered_as_done(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = MemoryStore()
    intake = Intake(verifier(), store=store, lease=timedelta())  # expires at once
    slow = opened(intake, signed("standard"))
    quick = opened(intake, signed("standard"))
    assert intake.finish(quick).status == 204
    assert intake.finish(slow).status == 204
    assert "longer lease" in caplog.text
    assert ID in caplog.text
    assert SECRET not in caplog.text
    assert KEY.decode() not in caplog.text

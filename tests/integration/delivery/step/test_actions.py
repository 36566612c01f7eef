"""Pausing, resuming, cancelling and resending a delivery, by signal and by request."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hookfast.clock import utc_now
from hookfast.deliveries.facts import Action
from hookfast.endpoints.circuit import Cause
from hookfast.errors import Conflict
from hookfast.storage.endpoints import endpoint_state, endpoints
from tests.integration.delivery.plans import PATIENT, QUICK
from tests.integration.delivery.steps import Steps

pytestmark = pytest.mark.anyio

PAUSE, RESUME, RESEND, CANCEL = Action.PAUSE, Action.RESUME, Action.RESEND, Action.CANCEL


async def test_pausing_twice_and_resuming_a_running_delivery_are_harmless(steps: Steps) -> None:
    delivery = await steps.deliver_to("/status/500", plan=PATIENT)
    planned = (await steps.row(delivery)).next_attempt_at

    assert (await steps.step(delivery, RESUME, PAUSE, PAUSE)).status == "paused"
    assert (await steps.step(delivery, RESUME, RESUME)).status == "retrying"

    assert (await steps.row(delivery)).next_attempt_at == planned


async def test_a_paused_delivery_can_be_resent_and_stays_paused_when_that_fails(
    steps: Steps,
) -> None:
    delivery = await steps.deliver_to("/status/500", plan=PATIENT)
    await steps.step(delivery, PAUSE)

    result = await steps.step(delivery, RESEND)

    assert (result.status, result.attempts, result.next_at) == ("paused", 2, None)
    assert len(steps.receiver.requests) == 2


async def test_a_delivery_paused_before_its_first_attempt_stays_paused_when_a_resend_fails(
    steps: Steps,
) -> None:
    endpoint = await steps.endpoint("/status/500", plan=PATIENT)
    delivery = await steps.deliver(endpoint, deliver_at=utc_now() + timedelta(days=1))
    assert (await steps.step(delivery)).attempts == 0
    assert (await steps.step(delivery, PAUSE)).status == "paused"

    result = await steps.step(delivery, RESEND)

    assert (result.status, result.attempts) == ("paused", 1)
    assert (await steps.row(delivery)).next_attempt_at is None


async def test_scheduled_delivery_is_resumed_for_its_time(steps: Steps) -> None:
    due = utc_now() + timedelta(days=1)
    delivery = await steps.deliver(await steps.endpoint("/ok"), deliver_at=due)
    await steps.step(delivery, PAUSE)

    result = await steps.step(delivery, RESUME)

    assert (result.status, result.next_at) == ("pending", due)
    assert (await steps.row(delivery)).next_attempt_at == due
    assert steps.receiver.requests == []


async def test_delivery_that_succeeds_during_temporals_cancel_stays_delivered(steps: Steps) -> None:
    """The workflow passes the cancellation on after the attempt in flight."""
    delivery = await steps.deliver_to("/ok")

    assert (await steps.step(delivery, CANCEL)).status == "delivered"

    assert (await steps.row(delivery)).status == "delivered"


async def test_a_resend_after_a_cancel_begins_the_plan_again(steps: Steps) -> None:
    delivery = await steps.deliver_to("/status/500", plan=PATIENT)

    result = await steps.step(delivery, PAUSE, CANCEL, RESEND)

    assert (result.status, result.attempts, result.retries) == ("retrying", 2, 0)
    row = await steps.row(delivery)
    assert row.finished_at is None
    assert row.next_attempt_at is not None


async def test_a_cancel_after_a_resend_withdraws_the_resend(steps: Steps) -> None:
    """Both arrive while an attempt is in flight that succeeds: the last action counts."""
    delivery = await steps.deliver_to("/ok")

    assert (await steps.step(delivery, RESEND, CANCEL)).status == "cancelled"

    assert len(steps.receiver.requests) == 1
    assert [attempt.result for attempt in await steps.attempts(delivery)] == ["success"]


async def test_a_failed_resend_neither_ends_nor_moves_the_plan(steps: Steps) -> None:
    delivery = await steps.deliver_to("/status/500", plan=PATIENT)
    planned = (await steps.row(delivery)).next_attempt_at

    result = await steps.step(delivery, RESEND)

    assert (result.status, result.retries, result.next_at) == ("retrying", 0, planned)
    assert (await steps.row(delivery)).next_attempt_at == planned
    assert [attempt.trigger for attempt in await steps.attempts(delivery)] == ["first", "resend"]


@pytest.mark.parametrize("ended", ["/ok", "/status/404"])
async def test_resend_of_a_finished_delivery_has_the_same_message_id(
    steps: Steps, ended: str
) -> None:
    steps.receiver.routes["/hook"] = ended
    delivery = await steps.deliver_to("/hook", plan="stepped", timeout=5)
    assert (await steps.row(delivery)).finished_at is not None

    steps.receiver.routes["/hook"] = "/ok"
    await steps.request(delivery, "resend")

    result = await steps.step(delivery)
    assert (result.status, result.attempts) == ("delivered", 2)
    assert {request.message_id for request in steps.receiver.requests} == {delivery}
    attempts = await steps.attempts(delivery)
    assert [attempt.number for attempt in attempts] == [1, 2]
    assert attempts[1].trigger == "resend"


async def test_failed_resend_of_a_finished_delivery_gets_the_whole_retry_plan(steps: Steps) -> None:
    steps.receiver.routes["/hook"] = "/ok"
    delivery = await steps.deliver_to("/hook", plan=QUICK)

    steps.receiver.routes["/hook"] = "/status/500"
    await steps.request(delivery, "resend")

    row = await steps.run(delivery)
    assert (row.status, row.attempts, row.retries) == ("dead", 5, 3)


async def test_finished_delivery_declines_every_action_but_resend(steps: Steps) -> None:
    delivery = await steps.deliver_to("/ok")
    for action in ("pause", "resume", "cancel"):
        with pytest.raises(Conflict, match="ended as delivered"):
            await steps.request(delivery, action)  # type: ignore[arg-type]


@pytest.mark.parametrize("deleted", [False, True], ids=["disabled", "deleted"])
async def test_resend_to_a_disabled_or_deleted_endpoint_is_declined_and_changes_nothing(
    steps: Steps, deleted: bool
) -> None:
    delivery = await steps.deliver_to("/ok")
    before = await steps.row(delivery)
    async with steps.database.write() as connection:
        if deleted:
            await endpoints.mark_deleted(connection, before.endpoint_id, at=utc_now())
        else:
            await endpoint_state.disable(
                connection,
                before.endpoint_id,
                cause=Cause.DISABLED,
                reason="Disabled.",
                now=utc_now(),
            )

    with pytest.raises(Conflict, match="deleted" if deleted else "disabled") as declined:
        await steps.request(delivery, "resend")

    assert declined.value.code == "endpoint_disabled"
    assert await steps.row(delivery) == before


async def test_resend_whose_endpoint_is_disabled_before_the_attempt_is_a_dead_letter(
    steps: Steps,
) -> None:
    delivery = await steps.deliver_to("/ok")
    endpoint = (await steps.row(delivery)).endpoint_id
    await steps.request(delivery, "resend")
    await steps.change_endpoint(
        endpoint_state.disable, endpoint, cause=Cause.DISABLED, reason="Disabled."
    )

    result = await steps.step(delivery)

    assert (result.status, result.reason, result.attempts) == ("dead", "endpoint_disabled", 1)
    assert "Nothing was sent" in (result.last_error or "")
    assert len(steps.receiver.requests) == 1


async def test_a_resend_to_a_disabled_endpoint_makes_no_attempt(steps: Steps) -> None:
    delivery = await steps.deliver_to("/status/500", plan=PATIENT)
    endpoint = (await steps.row(delivery)).endpoint_id
    await steps.change_endpoint(
        endpoint_state.disable, endpoint, cause=Cause.DISABLED, reason="By request."
    )

    result = await steps.step(delivery, RESEND)

    assert (result.status, result.attempts) == ("retrying", 1)
    assert "disabled" in (result.last_error or "")
    await steps.change_endpoint(endpoint_state.enable, endpoint)
    await steps.step(delivery, RESEND)
    # With a gap in the numbers, a later attempt would look as if it had been made.
    assert [attempt.number for attempt in await steps.attempts(delivery)] == [1, 2]
    assert [one.headers["x-hook-attempt"] for one in steps.receiver.requests] == ["1", "2"]

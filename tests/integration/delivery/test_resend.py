"""A delivery is sent again by signal: while its plan goes on, and after it has ended."""

from __future__ import annotations

from typing import Any

import pytest
from hookfast.steering import Steering
from sqlalchemy import select
from temporalio.client import WorkflowExecutionStatus

from hookfast.circuit import Cause
from hookfast.clock import utc_now
from hookfast.errors import Conflict
from hookfast.storage import endpoint_state, endpoints
from hookfast.storage.tables import Event
from tests.integration.delivery.conftest import Stack, eventually
from tests.integration.delivery.plans import PATIENT, QUICK

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]


async def test_a_failed_resend_neither_ends_nor_moves_the_plan(stack: Stack) -> None:
    delivery = await stack.deliver(await stack.endpoint("/status/500", plan=PATIENT))
    before = await stack.until_status(delivery, "retrying")

    await stack.workflow(delivery).signal("resend")
    await stack.receiver.wait_for(2)

    async def recorded() -> Any:
        row = await stack.row(delivery)
        return row if row.attempts == 2 else None

    after = await eventually(recorded)
    assert (after.status, after.retries) == ("retrying", 0)
    assert after.next_attempt_at == before.next_attempt_at
    now = await stack.state(delivery)
    assert now.retries == 0
    assert now.next_attempt_at is not None
    assert abs((now.next_attempt_at - before.next_attempt_at).total_seconds()) < 2
    assert [attempt.trigger for attempt in await stack.attempts(delivery)] == ["first", "resend"]


async def test_a_resend_that_succeeds_ends_the_delivery(stack: Stack) -> None:
    delivery = await stack.deliver(await stack.endpoint("/fail-first/1", plan=PATIENT))
    await stack.until_status(delivery, "retrying")

    await stack.workflow(delivery).signal("resend")

    row = await stack.until_status(delivery, "delivered")
    assert row.attempts == 2


@pytest.mark.parametrize("ended", ["/ok", "/status/404"])
async def test_resending_a_finished_delivery_starts_it_again_under_its_id(
    stack: Stack, steering: Steering, ended: str
) -> None:
    stack.receiver.routes["/hook"] = ended
    delivery = await stack.deliver(await stack.endpoint("/hook", plan="stepped", timeout=5))
    await stack.until_status(delivery, "delivered", "dead")
    await stack.until_closed(delivery)

    stack.receiver.routes["/hook"] = "/ok"
    await steering.signal(delivery, "resend")

    async def again() -> Any:
        row = await stack.row(delivery)
        return row if row.attempts == 2 and row.status == "delivered" else None

    await eventually(again)
    assert {request.message_id for request in stack.receiver.requests} == {delivery}
    attempts = await stack.attempts(delivery)
    assert [attempt.number for attempt in attempts] == [1, 2]
    assert attempts[1].trigger == "resend"


async def test_a_resend_of_a_finished_delivery_that_fails_gets_the_whole_plan(
    stack: Stack, steering: Steering
) -> None:
    stack.receiver.routes["/hook"] = "/ok"
    delivery = await stack.deliver(await stack.endpoint("/hook", plan=QUICK))
    await stack.until_closed(delivery)

    stack.receiver.routes["/hook"] = "/status/500"
    await steering.signal(delivery, "resend")

    row = await stack.until_status(delivery, "dead")
    assert (row.attempts, row.retries) == (5, 3)


@pytest.mark.parametrize("deleted", [False, True], ids=["disabled", "deleted"])
async def test_a_resend_to_an_endpoint_that_is_sent_nothing_is_refused_and_changes_nothing(
    stack: Stack, steering: Steering, deleted: bool
) -> None:
    endpoint = await stack.endpoint("/ok")
    delivery = await stack.deliver(endpoint)
    await stack.until_closed(delivery)
    before = await stack.row(delivery)
    async with stack.database.write() as connection:
        if deleted:
            await endpoints.mark_deleted(connection, endpoint, at=utc_now())
        else:
            await endpoint_state.disable(
                connection, endpoint, cause=Cause.DISABLED, reason="Disabled.", now=utc_now()
            )

    with pytest.raises(Conflict, match="deleted" if deleted else "disabled") as refused:
        await steering.signal(delivery, "resend")

    assert refused.value.code == "endpoint_disabled"
    description = await stack.workflow(delivery).describe()
    assert description.status is WorkflowExecutionStatus.COMPLETED
    assert await stack.row(delivery) == before
    assert len(stack.receiver.requests) == 1


async def test_what_was_delivered_stays_so_when_its_endpoint_is_disabled_before_it_is_sent_again(
    stack: Stack, steering: Steering, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = await stack.endpoint("/ok")
    delivery = await stack.deliver(endpoint)
    await stack.until_closed(delivery)
    before = await stack.row(delivery)
    sendable = Steering._refuse_unless_sendable

    async def sendable_a_moment_ago(self: Steering, row: Any) -> None:
        await sendable(self, row)
        async with stack.database.write() as connection:
            await endpoint_state.disable(
                connection, endpoint, cause=Cause.DISABLED, reason="Disabled.", now=utc_now()
            )

    monkeypatch.setattr(Steering, "_refuse_unless_sendable", sendable_a_moment_ago)
    await steering.signal(delivery, "resend")

    ended = await stack.until_closed(delivery)
    assert (ended["status"], ended["attempts"]) == ("delivered", 1)
    assert "Nothing was sent" in ended["last_error"]
    assert await stack.row(delivery) == before
    async with stack.database.read() as connection:
        told = await connection.execute(
            select(Event.__table__.c.id).where(Event.__table__.c.type == "hookfast.delivery.dead")
        )
        assert told.all() == []
    assert len(stack.receiver.requests) == 1

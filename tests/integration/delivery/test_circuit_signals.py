"""Signals that come at odd times while a circuit is open: too early, twice, too late, crossed."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import pytest
from temporalio.client import WorkflowExecutionStatus
from temporalio.testing import WorkflowEnvironment

from hookfast.circuit import Cause
from hookfast.clock import utc_now
from hookfast.conducting import CONTROL_QUEUE, LOOK
from hookfast.conductor import conductor_for
from hookfast.delivery import AttemptOrder
from hookfast.episode import WORKFLOW_TYPE, CircuitOrder, EpisodeState, workflow_id
from hookfast.errors import Conflict
from hookfast.payloads import DATA_CONVERTER
from hookfast.settings import Settings
from hookfast.steering import Steering
from hookfast.storage import circuits, endpoint_state, endpoints, subscriptions
from hookfast.storage.engine import Database
from tests.integration.delivery.circuits import (
    PATIENT,
    QUICK,
    broken,
    circuit,
    until_all,
    until_circuit,
)
from tests.integration.delivery.conftest import Stack, eventually, running_stack
from tests.receiver import Receiver
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]

ON_REQUEST = QUICK | {"probe_delays_seconds": [600]}
"""A circuit that is probed when a test says so."""
SOON = {"delays_seconds": [1.5, 600], "jitter": 0, "retry_on": "all"}
"""A retry plan whose first retries find the circuit open."""


class Control:
    """What people do to endpoints, as the API does it."""

    def __init__(self, stack: Stack, settings: Settings) -> None:
        self._stack = stack
        self._settings = settings

    async def conduct(self) -> None:
        stack = self._stack
        await conductor_for(self._settings, stack.client, stack.database).conduct()

    async def pause(self, endpoint: str) -> None:
        await self._change(endpoint_state.pause, endpoint)

    async def resume(self, endpoint: str) -> None:
        await self._change(endpoint_state.resume, endpoint)

    async def enable(self, endpoint: str) -> None:
        await self._change(endpoint_state.enable, endpoint)

    async def probe(self, endpoint: str) -> None:
        await self._change(endpoint_state.probe_now, endpoint)

    async def disable(self, endpoint: str) -> None:
        await self._change(
            endpoint_state.disable, endpoint, cause=Cause.DISABLED, reason="Disabled by request."
        )

    async def delete(self, endpoint: str) -> None:
        now = utc_now()
        async with self._stack.database.write() as connection:
            await endpoints.mark_deleted(connection, endpoint, at=now)
            await subscriptions.remove_of_endpoint(connection, endpoint)
            await endpoint_state.let_go(connection, endpoint, now=now)
        await self.conduct()

    async def _change(self, change: Any, endpoint: str, **options: Any) -> None:
        async with self._stack.database.write() as connection:
            assert await change(connection, endpoint, now=utc_now(), **options)
        await self.conduct()


@pytest.fixture
def control(stack: Stack, settings: Settings) -> Control:
    return Control(stack, settings)


@pytest.fixture
def steering(stack: Stack, settings: Settings) -> Steering:
    return Steering(stack.client, stack.database, fast_lane_timeout=settings.fast_lane_timeout)


async def held(stack: Stack, endpoint: str, count: int = 1) -> list[str]:
    """So many new deliveries, once they are held."""
    deliveries = [await stack.deliver(endpoint) for _ in range(count)]
    await until_all(stack, deliveries, "held")
    return deliveries


async def count_held(stack: Stack, endpoint: str) -> int:
    async with stack.database.read() as connection:
        return await circuits.count_held(connection, endpoint)


async def until_attempts(stack: Stack, delivery: str, count: int) -> Any:
    async def reached() -> Any:
        row = await stack.row(delivery)
        return row if row.attempts == count else None

    return await eventually(reached)


async def until_held_anew(stack: Stack, delivery: str, *, since: datetime) -> None:
    async def reached() -> bool:
        row = await stack.row(delivery)
        return row.status == "held" and row.updated_at > since

    await eventually(reached)


async def until_over(stack: Stack, endpoint: str) -> EpisodeState:
    """The end of the endpoint's episode."""
    handle = stack.client.get_workflow_handle(workflow_id(endpoint), result_type=EpisodeState)
    state: EpisodeState = await asyncio.wait_for(handle.result(), PATIENCE)
    assert state.state == "closed"
    assert (await circuit(stack, endpoint)).state == "closed"
    assert await count_held(stack, endpoint) == 0
    return state


def times_sent(stack: Stack, deliveries: list[str]) -> list[int]:
    return [len(stack.receiver.of_message(delivery)) for delivery in deliveries]


# -- release ------------------------------------------------------------------------------------


async def test_a_release_may_come_before_the_deliverys_workflow(
    temporal: WorkflowEnvironment, settings: Settings, database: Database, receiver: Receiver
) -> None:
    stack = Stack(temporal.client, database, receiver)
    delivery = await stack.deliver(await stack.endpoint("/ok"))
    steering = Steering(stack.client, database, fast_lane_timeout=settings.fast_lane_timeout)
    await steering.release(delivery)
    await steering.release(delivery, probe=True)
    async with running_stack(temporal, settings, database, receiver):
        await stack.until_status(delivery, "delivered")
        await stack.until_closed(delivery)
    assert times_sent(stack, [delivery]) == [1]


async def test_a_release_that_comes_twice_sends_once(
    stack: Stack, control: Control, steering: Steering
) -> None:
    endpoint, _ = await broken(stack, circuit=ON_REQUEST)
    deliveries = await held(stack, endpoint, 3)
    stack.receiver.routes["/hook"] = "/ok"
    await control.probe(endpoint)
    await until_circuit(stack, endpoint, "draining")
    for delivery in deliveries[1:] * 2:
        try:
            await steering.release(delivery)
        except Conflict:
            continue  # it has been delivered already
    await until_all(stack, deliveries, "delivered")
    await until_over(stack, endpoint)
    assert times_sent(stack, deliveries) == [1, 1, 1]


async def test_a_release_while_the_circuit_is_open_sends_nothing(
    stack: Stack, steering: Steering
) -> None:
    endpoint, _ = await broken(stack, circuit=ON_REQUEST)
    [delivery] = await held(stack, endpoint)
    for probe in (False, True):
        before = (await stack.row(delivery)).updated_at
        await steering.release(delivery, probe=probe)
        await until_held_anew(stack, delivery, since=before)
    assert times_sent(stack, [delivery]) == [0]
    assert (await stack.row(delivery)).attempts == 0


@pytest.mark.parametrize("probe", [False, True], ids=["release", "probe"])
@pytest.mark.parametrize("ended", ["delivered", "cancelled"])
async def test_a_release_of_a_delivery_that_has_ended_is_refused(
    stack: Stack, steering: Steering, ended: str, probe: bool
) -> None:
    endpoint = await stack.endpoint("/ok" if ended == "delivered" else "/status/500", plan=PATIENT)
    delivery = await stack.deliver(endpoint)
    if ended == "cancelled":
        await stack.until_status(delivery, "retrying")
        await stack.workflow(delivery).signal("cancel")
    await stack.until_status(delivery, ended)
    await stack.until_closed(delivery)
    with pytest.raises(Conflict, match=f"ended as {ended}"):
        await steering.release(delivery, probe=probe)
    description = await stack.workflow(delivery).describe()
    assert description.status is WorkflowExecutionStatus.COMPLETED
    assert times_sent(stack, [delivery]) == [1]


async def test_a_paused_delivery_that_is_asked_to_probe_stays_paused(
    stack: Stack, control: Control, steering: Steering
) -> None:
    endpoint, _ = await broken(stack, circuit=ON_REQUEST)
    [delivery, other] = await held(stack, endpoint, 2)
    await stack.workflow(delivery).signal("pause")
    await stack.until_status(delivery, "paused")
    await steering.release(delivery, probe=True)
    await steering.release(delivery)
    stack.receiver.routes["/hook"] = "/ok"
    await control.probe(endpoint)  # the other one is the probe: a paused one is never chosen
    await until_over(stack, endpoint)
    assert (await stack.row(delivery)).status == "paused"
    assert times_sent(stack, [delivery, other]) == [0, 1]
    await stack.workflow(delivery).signal("resume")
    await stack.until_status(delivery, "delivered")
    await stack.until_closed(delivery)
    assert times_sent(stack, [delivery]) == [1]


@pytest.mark.parametrize("attempted", [False, True], ids=["before its first attempt", "later"])
async def test_a_held_delivery_whose_workflow_was_lost_comes_back(
    stack: Stack, control: Control, attempted: bool
) -> None:
    endpoint, failed = await broken(stack, circuit=ON_REQUEST, plan=SOON)
    await until_all(stack, failed, "held")  # their first retries
    deliveries = failed if attempted else await held(stack, endpoint, 3)
    for delivery in deliveries:
        await stack.workflow(delivery).terminate("lost")
    stack.receiver.routes["/hook"] = "/ok"
    await stack.workflow(failed[0] if not attempted else (await held(stack, endpoint))[0]).signal(
        "resend"
    )
    await until_all(stack, deliveries, "delivered")
    await until_over(stack, endpoint)
    assert times_sent(stack, deliveries) == [1 + attempted] * 3


async def test_the_lost_workflow_of_a_probe_comes_back_as_the_probe(
    stack: Stack, control: Control
) -> None:
    endpoint, failed = await broken(stack, circuit=ON_REQUEST, plan=SOON)
    await until_all(stack, failed, "held")
    for delivery in failed:
        await stack.workflow(delivery).terminate("lost")
    stack.receiver.routes["/hook"] = "/ok"
    await control.probe(endpoint)
    await until_all(stack, failed, "delivered")
    await until_over(stack, endpoint)
    assert times_sent(stack, failed) == [2, 2, 2]


# -- look ---------------------------------------------------------------------------------------


async def test_looks_that_come_twice_or_too_late_change_nothing(
    stack: Stack, control: Control
) -> None:
    endpoint, _ = await broken(stack, circuit=ON_REQUEST)
    deliveries = await held(stack, endpoint, 2)
    workflow = stack.client.get_workflow_handle(workflow_id(endpoint))
    for _ in range(3):
        await workflow.signal(LOOK)
    for _ in range(2):
        await control.conduct()
    stack.receiver.routes["/hook"] = "/ok"
    await control.probe(endpoint)
    await workflow.signal(LOOK)
    first = await until_over(stack, endpoint)
    assert (first.episode, first.drained) == (1, 1)

    again = await stack.client.start_workflow(  # what a conductor that was slow does
        WORKFLOW_TYPE,
        CircuitOrder(endpoint),
        id=workflow_id(endpoint),
        task_queue=CONTROL_QUEUE,
        start_signal=LOOK,
        result_type=EpisodeState,
    )
    await again.result()
    late = await until_over(stack, endpoint)
    assert (late.episode, late.drained) == (1, 1)
    assert times_sent(stack, deliveries) == [1, 1]


async def test_a_look_may_start_the_workflow_of_an_endpoint_that_never_failed(stack: Stack) -> None:
    endpoint = await stack.endpoint("/ok")
    handle = await stack.client.start_workflow(
        WORKFLOW_TYPE,
        CircuitOrder(endpoint),
        id=workflow_id(endpoint),
        task_queue=CONTROL_QUEUE,
        start_signal=LOOK,
        result_type=EpisodeState,
    )
    state = await asyncio.wait_for(handle.result(), PATIENCE)
    assert (state.state, state.episode) == ("closed", 0)
    delivery = await stack.deliver(endpoint)
    await stack.until_status(delivery, "delivered")


async def test_a_terminated_circuit_workflow_is_started_again_by_the_next_change(
    stack: Stack, control: Control
) -> None:
    endpoint, _ = await broken(stack, circuit=ON_REQUEST)
    deliveries = await held(stack, endpoint, 2)
    workflow = stack.client.get_workflow_handle(workflow_id(endpoint))

    async def conducted() -> bool:
        return (await circuit(stack, endpoint)).conducted

    await eventually(conducted)
    await workflow.terminate("by hand")
    stack.receiver.routes["/hook"] = "/ok"
    await control.probe(endpoint)
    await until_all(stack, deliveries, "delivered")
    await until_over(stack, endpoint)
    assert times_sent(stack, deliveries) == [1, 1]


# -- what people do to a held delivery ------------------------------------------------------------


async def test_a_held_delivery_can_be_paused_and_is_held_again_when_it_is_resumed(
    stack: Stack, control: Control
) -> None:
    endpoint, _ = await broken(stack, circuit=ON_REQUEST)
    deliveries = await held(stack, endpoint, 2)
    for _ in range(2):
        await stack.workflow(deliveries[0]).signal("pause")
        await stack.until_status(deliveries[0], "paused")
        assert await count_held(stack, endpoint) == 1
        await stack.workflow(deliveries[0]).signal("resume")
        await stack.until_status(deliveries[0], "held")
    assert times_sent(stack, deliveries) == [0, 0]
    stack.receiver.routes["/hook"] = "/ok"
    await control.probe(endpoint)
    await until_all(stack, deliveries, "delivered")
    await until_over(stack, endpoint)
    assert times_sent(stack, deliveries) == [1, 1]


async def test_a_delivery_resumed_after_its_circuit_closed_is_sent(
    stack: Stack, control: Control
) -> None:
    endpoint, _ = await broken(stack, circuit=ON_REQUEST)
    [paused, other] = await held(stack, endpoint, 2)
    await stack.workflow(paused).signal("pause")
    await stack.until_status(paused, "paused")
    stack.receiver.routes["/hook"] = "/ok"
    await control.probe(endpoint)
    await until_over(stack, endpoint)
    assert times_sent(stack, [paused, other]) == [0, 1]
    await stack.workflow(paused).signal("resume")
    await stack.until_status(paused, "delivered")
    assert times_sent(stack, [paused]) == [1]


@pytest.mark.parametrize("by", ["signal", "temporal"])
async def test_a_held_delivery_can_be_cancelled(stack: Stack, control: Control, by: str) -> None:
    endpoint, _ = await broken(stack, circuit=ON_REQUEST)
    [cancelled, other] = await held(stack, endpoint, 2)
    handle = stack.workflow(cancelled)
    await (handle.signal("cancel") if by == "signal" else handle.cancel())
    await stack.until_status(cancelled, "cancelled")
    await stack.until_closed(cancelled)
    stack.receiver.routes["/hook"] = "/ok"
    await control.probe(endpoint)
    await until_over(stack, endpoint)
    assert (await stack.row(cancelled)).status == "cancelled"
    assert times_sent(stack, [cancelled, other]) == [0, 1]


@pytest.mark.parametrize("attempted", [False, True], ids=["before its first attempt", "later"])
async def test_a_failed_resend_of_a_held_delivery_changes_nothing(
    stack: Stack, control: Control, attempted: bool
) -> None:
    endpoint, failed = await broken(stack, circuit=ON_REQUEST, plan=SOON)
    await until_all(stack, failed, "held")
    [delivery] = failed[:1] if attempted else await held(stack, endpoint)
    before = await stack.row(delivery)
    await stack.workflow(delivery).signal("resend")
    after = await until_attempts(stack, delivery, before.attempts + 1)
    assert (after.status, after.reason, after.retries) == ("held", "circuit_open", 0)
    assert after.next_attempt_at == before.next_attempt_at
    assert (await circuit(stack, endpoint)).state == "open"

    stack.receiver.routes["/hook"] = "/ok"
    await control.probe(endpoint)
    await until_all(stack, [delivery, *failed], "delivered")
    await until_over(stack, endpoint)
    assert times_sent(stack, [delivery]) == [before.attempts + 2]


async def test_a_gentle_resend_of_a_finished_delivery_waits_with_the_others(
    stack: Stack, control: Control, steering: Steering
) -> None:
    stack.receiver.routes["/hook"] = "/ok"
    endpoint = await stack.endpoint("/hook", plan=PATIENT, circuit=ON_REQUEST)
    delivery = await stack.deliver(endpoint)
    await stack.until_closed(delivery)
    stack.receiver.routes["/hook"] = "/status/500"
    failed = [await stack.deliver(endpoint) for _ in range(3)]
    await until_all(stack, failed, "retrying")
    await until_circuit(stack, endpoint, "open")

    await steering.signal(delivery, "resend", gently=True)
    row = await stack.until_status(delivery, "held")
    assert (row.attempts, row.finished_at) == (1, None)
    assert times_sent(stack, [delivery]) == [1]
    stack.receiver.routes["/hook"] = "/ok"
    await stack.workflow(failed[0]).signal("resend")
    await stack.until_status(delivery, "delivered")
    await until_over(stack, endpoint)
    await stack.until_closed(delivery)
    assert times_sent(stack, [delivery]) == [2]
    assert [attempt.number for attempt in await stack.attempts(delivery)] == [1, 2]


async def test_waiting_and_probing_use_up_neither_retries_nor_the_plans_time(
    stack: Stack, control: Control
) -> None:
    begun = utc_now()
    endpoint, failed = await broken(stack, circuit=ON_REQUEST, plan=SOON)
    await until_all(stack, failed, "held")
    held_since = utc_now()
    await control.probe(endpoint)
    probed = min(failed)
    row = await until_attempts(stack, probed, 2)
    assert (row.status, row.retries) == ("held", 0)
    await asyncio.sleep(2)
    held_seconds = (utc_now() - held_since).total_seconds()
    stack.receiver.routes["/hook"] = "/ok"
    await control.probe(endpoint)
    await until_all(stack, failed, "delivered")
    await until_over(stack, endpoint)
    all_seconds = (utc_now() - begun).total_seconds()

    assert {(await stack.row(one)).retries for one in failed} <= {0, 1}
    orders = [(await attempt_orders(stack, one))[-1] for one in failed]
    retries = [order for order in orders if order.trigger == "retry"]
    assert {(order.retries_used, order.in_plan) for order in retries} == {(1, True)}
    for order in retries:
        assert 1.5 <= order.elapsed_seconds <= all_seconds - held_seconds


async def attempt_orders(stack: Stack, delivery: str) -> list[AttemptOrder]:
    """The input of every attempt that was an activity of its own."""
    orders = []
    for event in (await stack.workflow(delivery).fetch_history()).events:
        scheduled = event.activity_task_scheduled_event_attributes
        if scheduled.activity_type.name == "attempt":
            payloads = list(scheduled.input.payloads)
            orders += await DATA_CONVERTER.decode(payloads, [AttemptOrder])
    return orders


async def test_a_resend_to_a_disabled_endpoint_is_no_attempt(
    stack: Stack, control: Control
) -> None:
    delivery = await stack.deliver(await stack.endpoint("/status/500", plan=PATIENT))
    row = await stack.until_status(delivery, "retrying")
    await control.disable(row.endpoint_id)
    await stack.workflow(delivery).signal("resend")

    async def refused() -> bool:
        return "disabled" in str((await stack.workflow(delivery).query("state"))["last_error"])

    await eventually(refused)
    assert (await stack.row(delivery)).status == "retrying"
    assert (await stack.workflow(delivery).query("state"))["attempts"] == 1
    await control.enable(row.endpoint_id)
    await stack.workflow(delivery).signal("resend")
    await until_attempts(stack, delivery, 2)
    # A gap would make a later attempt pass for one that was made already.
    assert [attempt.number for attempt in await stack.attempts(delivery)] == [1, 2]
    assert [one.headers["x-hook-attempt"] for one in stack.receiver.requests] == ["1", "2"]


# -- what people do to the endpoint ---------------------------------------------------------------


async def in_open(stack: Stack, control: Control, endpoint: str) -> None:
    assert (await circuit(stack, endpoint)).state == "open"


async def in_half_open(stack: Stack, control: Control, endpoint: str) -> None:
    stack.receiver.routes["/hook"] = "/slow/2"
    sent = len(stack.receiver.requests)
    await control.probe(endpoint)
    await stack.receiver.wait_for(sent + 1)  # the probe's request is under way
    assert (await circuit(stack, endpoint)).state == "half_open"


async def in_draining(stack: Stack, control: Control, endpoint: str) -> None:
    stack.receiver.routes["/hook"] = "/ok"
    sent = len(stack.receiver.requests)
    await control.probe(endpoint)
    await stack.receiver.wait_for(sent + 3)
    assert (await circuit(stack, endpoint)).state == "draining"


PHASES = pytest.mark.parametrize("phase", [in_open, in_half_open, in_draining])


@PHASES
async def test_an_endpoint_paused_in_an_outage_is_sent_nothing_until_it_is_resumed(
    stack: Stack, control: Control, phase: Any
) -> None:
    endpoint, _ = await broken(stack, circuit=ON_REQUEST)
    deliveries = await held(stack, endpoint, 20)
    await phase(stack, control, endpoint)
    await control.pause(endpoint)
    stack.receiver.routes["/hook"] = "/ok"
    new = await stack.deliver(endpoint)
    row = await stack.until_status(new, "held")
    assert row.reason == "endpoint_paused"

    async def settled() -> bool:
        """What was under way when it was paused has ended."""
        requests = sum(times_sent(stack, deliveries))
        rows = [await stack.row(delivery) for delivery in deliveries]
        return {one.status for one in rows} <= {"held", "delivered"} and requests == sum(
            one.attempts for one in rows
        )

    await eventually(settled)
    await asyncio.sleep(0.5)
    await eventually(settled)
    sent = sum(times_sent(stack, deliveries))
    await asyncio.sleep(1)
    assert sum(times_sent(stack, deliveries)) == sent
    assert sent < 20

    await control.resume(endpoint)
    await until_all(stack, [*deliveries, new], "delivered")
    state = await until_over(stack, endpoint)
    assert state.episode == 1
    assert times_sent(stack, [*deliveries, new]) == [1] * 21


@PHASES
async def test_an_endpoint_disabled_in_an_outage_turns_what_is_held_into_dead_letters(
    stack: Stack, control: Control, phase: Any
) -> None:
    endpoint, _ = await broken(stack, circuit=ON_REQUEST)
    deliveries = await held(stack, endpoint, 20)
    await phase(stack, control, endpoint)
    await control.disable(endpoint)
    await until_all(stack, deliveries, "dead", "delivered")
    state = await until_over(stack, endpoint)
    assert state.episode == 1
    rows = [await stack.row(delivery) for delivery in deliveries]
    assert {row.reason for row in rows if row.status == "dead"} == {"endpoint_disabled"}
    # what was on its way when it was disabled arrived; nothing was sent twice
    assert times_sent(stack, deliveries) == [int(row.status == "delivered") for row in rows]


async def test_an_endpoint_enabled_at_once_is_sent_all_that_was_held(
    stack: Stack, control: Control
) -> None:
    endpoint, _ = await broken(stack, circuit=ON_REQUEST)
    deliveries = await held(stack, endpoint, 5)
    stack.receiver.routes["/hook"] = "/ok"
    async with stack.database.write() as connection:
        await endpoint_state.disable(
            connection, endpoint, cause=Cause.DISABLED, reason="A slip.", now=utc_now()
        )
        await endpoint_state.enable(connection, endpoint, now=utc_now())
    await control.conduct()
    await until_all(stack, deliveries, "delivered")
    await until_over(stack, endpoint)
    assert times_sent(stack, deliveries) == [1] * 5


async def test_an_endpoint_enabled_while_it_is_flushed_is_sent_the_rest(
    stack: Stack, control: Control
) -> None:
    endpoint, _ = await broken(stack, circuit=ON_REQUEST)
    deliveries = await held(stack, endpoint, 80)
    stack.receiver.routes["/hook"] = "/ok"
    await control.disable(endpoint)

    async def begun() -> bool:
        return await count_held(stack, endpoint) < 80

    await eventually(begun)
    await control.enable(endpoint)
    await until_all(stack, deliveries, "dead", "delivered")
    await until_over(stack, endpoint)
    rows = [await stack.row(delivery) for delivery in deliveries]
    assert {row.reason for row in rows if row.status == "dead"} == {"endpoint_disabled"}
    assert times_sent(stack, deliveries) == [int(row.status == "delivered") for row in rows]
    fresh = await stack.deliver(endpoint)
    await stack.until_status(fresh, "delivered")


@PHASES
async def test_a_deleted_endpoints_held_deliveries_end_dead(
    stack: Stack, control: Control, phase: Any
) -> None:
    endpoint, _ = await broken(stack, circuit=ON_REQUEST)
    deliveries = await held(stack, endpoint, 20)
    await phase(stack, control, endpoint)
    await control.delete(endpoint)
    await until_all(stack, deliveries, "dead", "delivered")
    await until_over(stack, endpoint)
    rows = [await stack.row(delivery) for delivery in deliveries]
    assert {row.reason for row in rows if row.status == "dead"} == {"endpoint_deleted"}
    assert times_sent(stack, deliveries) == [int(row.status == "delivered") for row in rows]

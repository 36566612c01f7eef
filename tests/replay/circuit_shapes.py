"""The shapes of the histories of circuits, and of the deliveries that they hold and release."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from hookfast.deliveries.facts import Action
from hookfast.endpoints.outage import workflow_id
from hookfast.storage.endpoints import endpoint_state
from tests.integration.delivery.circuits import (
    ON_REQUEST,
    QUICK,
    broken,
    circuit,
    hold,
    until_circuit,
    until_workflow_waits,
)
from tests.integration.delivery.conftest import Stack
from tests.support.waiting import eventually

# -- deliveries ---------------------------------------------------------------------------------


async def held_and_released(stack: Stack) -> str:
    endpoint, failed = await broken(stack, circuit=ON_REQUEST)
    [delivery] = await hold(stack, endpoint, 1)
    await _heal(stack, failed[0])
    return delivery


async def probed_then_released(stack: Stack) -> str:
    endpoint, failed = await broken(stack, circuit=ON_REQUEST)
    [delivery] = await hold(stack, endpoint, 1)
    await stack.change_endpoint(endpoint_state.probe_now, endpoint)

    await stack.until_attempts(delivery, 1)
    await _heal(stack, failed[0])
    return delivery


async def resent_and_failed_while_held(stack: Stack) -> str:
    endpoint, failed = await broken(stack, circuit=ON_REQUEST)
    [delivery] = await hold(stack, endpoint, 1)
    await stack.workflow(delivery).signal("resend")

    await stack.until_attempts(delivery, 1)
    await _heal(stack, failed[0])
    return delivery


async def resent_by_a_job_while_held(stack: Stack) -> str:
    endpoint, failed = await broken(stack, circuit=ON_REQUEST)
    [delivery] = await hold(stack, endpoint, 1)
    await stack.request_many([delivery], Action.RESEND_YIELDING)
    await stack.wake(delivery)
    await stack.until_relayed(delivery)
    await _heal(stack, failed[0])
    return delivery


async def resent_by_a_job_and_failed(stack: Stack) -> str:
    _, [delivery, other, _] = await broken(stack, circuit=ON_REQUEST)
    await stack.request_many([delivery], Action.RESEND_YIELDING)
    await stack.until_status(delivery, "held")
    stack.receiver.routes["/hook"] = "/fail-first/1"
    for attempts in (2, 3):
        await stack.workflow(other).signal("resend")
        await stack.until_attempts(other, attempts)
    await stack.until_attempts(delivery, 2)
    await stack.until_status(delivery, "retrying")
    await stack.workflow(delivery).signal("cancel")
    return delivery


async def paused_while_held(stack: Stack) -> str:
    endpoint, failed = await broken(stack, circuit=ON_REQUEST)
    [delivery] = await hold(stack, endpoint, 1)
    await stack.signal(delivery, "pause", until="paused")
    await stack.signal(delivery, "resume", until="held")
    await _heal(stack, failed[0])
    return delivery


async def cancelled_while_held(stack: Stack) -> str:
    endpoint, _ = await broken(stack, circuit=ON_REQUEST)
    [delivery] = await hold(stack, endpoint, 1)
    await stack.workflow(delivery).signal("cancel")
    return delivery


async def dead_when_its_endpoint_was_disabled(stack: Stack) -> str:
    endpoint, _ = await broken(stack, circuit=ON_REQUEST | {"disable_after_seconds": 4})
    [delivery] = await hold(stack, endpoint, 1)
    return delivery


async def limited_by_rate(stack: Stack) -> str:
    endpoint = await stack.endpoint("/ok", rate_limit_per_second=0.5)
    deliveries = await stack.deliver_together(endpoint, 3)
    await stack.until_all(deliveries, "delivered")
    for delivery in deliveries:
        await stack.until_closed(delivery)
        history = await stack.workflow(delivery).fetch_history()
        if any(event.HasField("timer_started_event_attributes") for event in history.events):
            return delivery
    raise AssertionError("nothing was limited")


# -- circuits -----------------------------------------------------------------------------------


async def circuit_recovered(stack: Stack) -> str:
    endpoint, _ = await broken(stack, circuit=QUICK | {"probe_delays_seconds": [1, 1, 600]})
    held = await hold(stack, endpoint, 10)

    async def probed_twice() -> bool:
        return bool((await circuit(stack, endpoint)).probes == 2)

    await eventually(probed_twice)
    await until_workflow_waits(stack, endpoint, seconds=600)
    stack.receiver.routes["/hook"] = "/ok"
    await stack.change_endpoint(endpoint_state.probe_now, endpoint)
    await stack.until_all(held, "delivered")
    return workflow_id(endpoint)


async def circuit_gave_up(stack: Stack) -> str:
    options = {"disable_after_seconds": 5, "probe_delays_seconds": [1]}
    endpoint, _ = await broken(stack, circuit=QUICK | options)
    await stack.until_all(await stack.deliver_together(endpoint, 3), "dead")
    return workflow_id(endpoint)


async def circuit_paused_and_resumed(stack: Stack) -> str:
    endpoint, _ = await broken(stack, circuit=ON_REQUEST)
    held = await hold(stack, endpoint, 3)
    await stack.change_endpoint(endpoint_state.pause, endpoint)
    await stack.client.get_workflow_handle(workflow_id(endpoint)).signal("wake")
    await until_workflow_waits(stack, endpoint, seconds=3600)
    stack.receiver.routes["/hook"] = "/ok"
    await stack.change_endpoint(endpoint_state.resume, endpoint)
    await stack.until_all(held, "delivered")
    return workflow_id(endpoint)


async def circuit_armed_then_closed(stack: Stack) -> str:
    endpoint, _ = await broken(stack, circuit=QUICK | {"probe_delays_seconds": [0.3, 60]})
    await until_circuit(stack, endpoint, "half_open")
    stack.receiver.routes["/hook"] = "/ok"
    await stack.until_status(await stack.deliver(endpoint), "delivered")
    return workflow_id(endpoint)


async def circuit_reopened_while_draining(stack: Stack) -> str:
    endpoint, _ = await broken(stack, circuit=ON_REQUEST)
    held = await hold(stack, endpoint, 12)
    stack.receiver.routes["/hook"] = "/ok"
    await stack.change_endpoint(endpoint_state.probe_now, endpoint)
    await stack.receiver.wait_for(5)
    stack.receiver.routes["/hook"] = "/status/500"
    await until_circuit(stack, endpoint, "open")
    await until_workflow_waits(stack, endpoint, seconds=600)
    stack.receiver.routes["/hook"] = "/ok"
    await stack.change_endpoint(endpoint_state.probe_now, endpoint)
    await stack.until_all(held, "delivered", "retrying")
    return workflow_id(endpoint)


async def circuit_of_a_resumed_endpoint(stack: Stack) -> str:
    endpoint = await stack.endpoint("/ok")
    await stack.change_endpoint(endpoint_state.pause, endpoint)
    held = await hold(stack, endpoint, 3)
    await stack.change_endpoint(endpoint_state.resume, endpoint)
    await stack.until_all(held, "delivered")
    return workflow_id(endpoint)


async def _heal(stack: Stack, failed: str) -> None:
    """Make a person's resend succeed, which starts the drain."""
    stack.receiver.routes["/hook"] = "/ok"
    await stack.workflow(failed).signal("resend")


CIRCUIT_SHAPES: tuple[Callable[[Stack], Awaitable[str]], ...] = (
    held_and_released,
    probed_then_released,
    resent_and_failed_while_held,
    resent_by_a_job_while_held,
    resent_by_a_job_and_failed,
    paused_while_held,
    cancelled_while_held,
    dead_when_its_endpoint_was_disabled,
    limited_by_rate,
    circuit_recovered,
    circuit_gave_up,
    circuit_paused_and_resumed,
    circuit_armed_then_closed,
    circuit_reopened_while_draining,
    circuit_of_a_resumed_endpoint,
)

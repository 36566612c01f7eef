"""The shapes of the histories of deliveries that get several actions, or whose endpoint has
limits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from sqlalchemy import update

from hookfast.clock import utc_now
from hookfast.deliveries.facts import Action
from hookfast.storage.endpoints import endpoint_state
from hookfast.storage.tables import Endpoint
from tests.integration.delivery.circuits import PATIENT, QUICK, until_circuit
from tests.integration.delivery.conftest import Stack
from tests.support.waiting import eventually


async def cancelled_by_temporal_in_an_attempt(stack: Stack) -> str:
    delivery = await _in_first_attempt(stack, "/slow/2?status=500")
    await stack.workflow(delivery).cancel()
    return delivery


async def cancelled_then_resent(stack: Stack) -> str:
    stack.receiver.routes["/hook"] = "/slow/1?status=500"
    delivery = await _in_first_attempt(stack, "/hook")
    stack.receiver.routes["/hook"] = "/ok"
    for name in ("cancel", "resend"):
        await stack.workflow(delivery).signal(name)
    return delivery


async def resent_then_cancelled(stack: Stack) -> str:
    delivery = await _in_first_attempt(stack, "/slow/1")
    for name in ("resend", "cancel"):
        await stack.workflow(delivery).signal(name)
    return delivery


async def resent_then_cancelled_then_resent(stack: Stack) -> str:
    delivery = await _in_first_attempt(stack, "/slow/1")
    for name in ("resend", "cancel", "resend"):
        await stack.workflow(delivery).signal(name)
    return delivery


async def limited_resend_while_held(stack: Stack) -> str:
    endpoint = await stack.endpoint("/ok", rate_limit_per_second=0.5)
    await stack.change_endpoint(endpoint_state.pause, endpoint)
    first, second = await stack.deliver_together(endpoint, 2)
    await stack.until_all([first, second], "held")
    await stack.signal(first, "resend", until="delivered")
    await stack.workflow(second).signal("resend")
    return second


async def limited_resend_while_paused(stack: Stack) -> str:
    stack.receiver.routes["/hook"] = "/status/500"
    endpoint = await stack.endpoint("/hook", plan=PATIENT, rate_limit_per_second=0.5)
    delivery = await stack.deliver(endpoint)
    await stack.until_status(delivery, "retrying")
    await stack.signal(delivery, "pause", until="paused")
    stack.receiver.routes["/hook"] = "/ok"
    await stack.workflow(delivery).signal("resend")
    return delivery


async def limited_probe(stack: Stack) -> str:
    options = QUICK | {"failure_threshold": 1, "probe_delays_seconds": [600]}
    endpoint = await stack.endpoint(
        "/status/500", plan=PATIENT, circuit=options, rate_limit_per_second=0.25
    )
    await stack.deliver(endpoint)
    await until_circuit(stack, endpoint, "open")
    delivery = await stack.deliver(endpoint)
    await stack.until_status(delivery, "held")
    await stack.change_endpoint(endpoint_state.probe_now, endpoint)

    await stack.until_attempts(delivery, 1)
    await stack.workflow(delivery).signal("cancel")
    return delivery


async def resumed_while_resent(stack: Stack) -> str:
    stack.receiver.routes["/hook"] = "/status/500"
    plan = PATIENT | {"delays_seconds": [4, 60]}
    delivery = await stack.deliver_until("retrying", "/hook", plan=plan, timeout=20)
    await stack.signal(delivery, "pause", until="paused")
    stack.receiver.routes["/hook"] = "/slow/1?status=500"
    await stack.workflow(delivery).signal("resend")
    await stack.receiver.wait_for(2)
    await stack.workflow(delivery).signal("resume")
    stack.receiver.routes["/hook"] = "/ok"
    return delivery


async def paused_in_the_first_attempt(stack: Stack) -> str:
    return await _signalled_in_the_first_attempt(stack, "pause")


async def cancelled_in_the_first_attempt(stack: Stack) -> str:
    return await _signalled_in_the_first_attempt(stack, "cancel")


async def woken_by_a_raised_limit(stack: Stack) -> str:
    endpoint = await stack.endpoint("/ok", rate_limit_per_second=0.001)
    first, second = await stack.deliver_together(endpoint, 2)

    async def limited() -> str | None:
        rows = [await stack.row(delivery) for delivery in (first, second)]
        waiting = [row.id for row in rows if row.reason == "endpoint_limit"]
        return waiting[0] if waiting else None

    delivery: str = await eventually(limited)
    c = Endpoint.__table__.c
    async with stack.database.write() as connection:
        await connection.execute(
            update(Endpoint.__table__)
            .where(c.id == endpoint)
            .values(rate_limit_per_second=None, updated_at=utc_now())
        )
    await stack.request_many([delivery], Action.CHECK_LIMITS)
    return delivery


async def _signalled_in_the_first_attempt(stack: Stack, signal: str) -> str:
    """Temporal repeats the workflow task, and the workflow finds the attempt in its row."""
    delivery = await stack.deliver(await stack.endpoint("/slow/1"))
    await stack.receiver.wait_for(1)
    await stack.workflow(delivery).signal(signal)
    return delivery


async def _in_first_attempt(stack: Stack, path: str) -> str:
    delivery = await stack.deliver(await stack.endpoint(path, plan=PATIENT, timeout=20))
    await stack.receiver.wait_for(1)
    return delivery


SIGNAL_SHAPES: tuple[Callable[[Stack], Awaitable[str]], ...] = (
    cancelled_by_temporal_in_an_attempt,
    cancelled_then_resent,
    resent_then_cancelled,
    resent_then_cancelled_then_resent,
    limited_resend_while_held,
    limited_resend_while_paused,
    limited_probe,
    resumed_while_resent,
    paused_in_the_first_attempt,
    cancelled_in_the_first_attempt,
    woken_by_a_raised_limit,
)

"""The circuit breaker's activities: read, probe, drain, disable. Each changes the circuit's row in
one transaction and returns the circuit's status after it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import structlog
from temporalio import activity

from activities.heartbeat import heartbeat
from hookfast.clock import format_duration, rfc3339, utc_now
from hookfast.deliveries.facts import Action
from hookfast.deliveries.job import Spacing
from hookfast.deliveries.messages import Urgency
from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.endpoints.circuit import (
    Cause,
    Circuit,
    EndpointState,
    Policy,
    State,
    abandon_probe,
    begin_probe,
    closed,
    release_all,
)
from hookfast.endpoints.outage import CircuitStatus, DrainInput
from hookfast.owners.notice import NoticeKind
from hookfast.storage.circuits import circuits
from hookfast.storage.circuits.circuits import EndpointCircuit
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import deliveries, lives, outbox, permits
from hookfast.storage.deliveries.admission import PROBE_MARGIN
from hookfast.storage.deliveries.recorder import Wakeup
from hookfast.storage.endpoints import endpoint_state
from hookfast.storage.owners import notifications

_TICK = 0.2
"""Seconds between two checks of a probe, and between two releases of held deliveries."""
_MAX_RELEASED = 200
"""Deliveries released in one transaction."""

log = structlog.get_logger()


class CircuitActivities:
    """The activities of `CircuitBreakerWorkflow`. One per worker process."""

    def __init__(
        self,
        *,
        database: Database,
        policy: Policy,
        on_commit: Callable[[Wakeup], None],
    ) -> None:
        self._database = database
        self._policy = policy
        self._on_commit = on_commit

    @property
    def all(self) -> list[Callable[..., object]]:
        """Every activity, for the worker."""
        return [
            self.read_circuit,
            self.probe_endpoint,
            self.drain_step,
            self.disable_endpoint,
            self.warn_owners,
            self.notify_recovered,
        ]

    @activity.defn
    async def read_circuit(self, endpoint_id: str) -> CircuitStatus:
        """Return the circuit's status."""
        return await self._change(endpoint_id, lambda owned: owned.circuit)

    @activity.defn
    async def probe_endpoint(self, endpoint_id: str) -> CircuitStatus:
        """Send one held delivery as a probe, and wait for its attempt.

        If nothing is held, the next delivery becomes the probe. A retry of this activity (its
        worker died) waits for the probe that was begun.
        """
        async with heartbeat():
            probe = await self._begin_probe(endpoint_id)
            if probe is not None:
                # After the circuit's commit: a delivery that is woken earlier is not the probe yet.
                async with self._database.write() as connection:
                    await outbox.wake(connection, [probe])
                self._on_commit(Wakeup.OUTBOX)
                await self._wait_for_probe(endpoint_id, probe)
            return await self.read_circuit(endpoint_id)

    async def _abandon(self, endpoint_id: str, probe: str) -> None:
        await self._change(endpoint_id, lambda owned: abandon_probe(owned.circuit, probe))

    async def _begin_probe(self, endpoint_id: str) -> str | None:
        """Choose the probe. Return its delivery id, or None if there is none to wait for."""
        now = utc_now()
        async with self._database.write() as connection:
            locked = await circuits.lock(connection, [endpoint_id])
            if not locked or locked[0].endpoint_state is not EndpointState.ENABLED:
                return None
            owned = locked[0]
            before = owned.circuit
            if before.state is State.HALF_OPEN and before.probe_delivery_id is not None:
                if before.probe_until is None or before.probe_until > now:
                    return before.probe_delivery_id
                before = abandon_probe(before, before.probe_delivery_id)
            probe = await circuits.next_probe(connection, owned)
            lease = timedelta(seconds=owned.timeout_seconds) + PROBE_MARGIN
            after = begin_probe(before, probe, until=now + lease)
            if after.state is not State.HALF_OPEN:
                return None
            if probe is None:  # armed; check again when the next probe would be due
                delay = self._policy_of(owned).probe_delay(after.probes)
                after = replace(after, next_probe_at=now + delay)
            await circuits.store(connection, owned, after, now=now)
            return probe

    async def _wait_for_probe(self, endpoint_id: str, probe: str) -> None:
        """Wait until the probe's attempt is recorded, or given up."""
        while True:
            async with self._database.read() as connection:
                owned = await circuits.get(connection, endpoint_id)
                delivery = await deliveries.get(connection, probe)
            if owned is None or delivery is None:
                return
            circuit = owned.circuit
            if circuit.state is not State.HALF_OPEN or circuit.probe_delivery_id != probe:
                return
            status = DeliveryStatus(delivery.status)
            if status is DeliveryStatus.PAUSED or status.finished:  # somebody paused or ended it
                await self._abandon(endpoint_id, probe)
                return
            if circuit.probe_until is not None and circuit.probe_until <= utc_now():
                log.warning(
                    "A probe has no result in time and is given up.", endpoint_id=endpoint_id
                )
                await self._abandon(endpoint_id, probe)
                return
            await asyncio.sleep(_TICK)

    @activity.defn
    async def drain_step(self, input: DrainInput) -> CircuitStatus:
        """Release held deliveries, oldest first, evenly at the given rate and for the given time.
        Close the circuit when none is left. Stop when the circuit opens again or is paused.

        A released delivery is woken through the outbox. It counts as held, and not as drained,
        until its attempt is recorded or waits for the endpoint's limits, so a crash loses none.
        """
        async with heartbeat():
            spacing = Spacing(input.rate, first_at=_loop_time(), catch_up=input.seconds)
            ends_at = _loop_time() + input.seconds
            begun = await self._change(
                input.endpoint_id, lambda owned: _at_rate(owned.circuit, input.rate)
            )
            while _loop_time() < ends_at:
                async with self._database.read() as connection:
                    owned = await circuits.get(connection, input.endpoint_id)
                    if owned is None or owned.circuit.state is not State.DRAINING:
                        break
                    state = owned.endpoint_state
                    if state is EndpointState.PAUSED or state != begun.endpoint_state:
                        break  # stop releasing, or release at another rate
                    held = await circuits.count_held(connection, input.endpoint_id)
                if not held and await self._close(input.endpoint_id):
                    break
                await self._release(
                    input.endpoint_id, spacing.take(_loop_time(), most=_MAX_RELEASED)
                )
                await asyncio.sleep(_TICK)
            return await self.read_circuit(input.endpoint_id)

    async def _release(self, endpoint_id: str, limit: int) -> None:
        if not limit:
            return
        async with self._database.write() as connection:
            ids = await circuits.unreleased_ids(connection, endpoint_id, limit=limit)
            await lives.apply(
                connection,
                [(one, Action.RELEASE) for one in ids],
                now=utc_now(),
                wake=Urgency.RETRY,
            )
        if ids:
            self._on_commit(Wakeup.OUTBOX)

    async def _close(self, endpoint_id: str) -> bool:
        """Close the circuit if nothing is held. Return whether it is closed."""
        now = utc_now()
        async with self._database.write() as connection:
            # locked first, so that nothing can be put on hold between the count and the commit
            locked = await circuits.lock(connection, [endpoint_id])
            if not locked:
                return True
            owned = locked[0]
            held = await circuits.count_held(connection, endpoint_id)
            after = closed(owned.circuit, held=held)
            if after.state is not State.CLOSED:
                return False
            await circuits.store(connection, owned, after, now=now)
            await permits.reset(connection, endpoint_id, now=now)
            policy = self._policy_of(owned)
            await notifications.circuit_changed(connection, owned, after, policy=policy, now=now)
        self._on_commit(Wakeup.CIRCUIT | Wakeup.OUTBOX)
        return True

    @activity.defn
    async def disable_endpoint(self, endpoint_id: str) -> CircuitStatus:
        """Disable an endpoint that has failed for too long. Its held deliveries become dead
        letters."""
        now = utc_now()
        async with self._database.write() as connection:
            await endpoint_state.lock(connection, [endpoint_id])
            owned = next(iter(await circuits.lock(connection, [endpoint_id])), None)
            # unless an attempt has succeeded in between
            if owned is not None and owned.circuit.state in (State.OPEN, State.HALF_OPEN):
                lasted = format_duration(self._policy_of(owned).disable_after)
                reason = (
                    f"It failed for {lasted} without a success. "
                    f"Last error: {owned.circuit.last_error or 'none'}"
                )
                await endpoint_state.disable(
                    connection, endpoint_id, cause=Cause.GAVE_UP, reason=reason, now=now
                )
        self._on_commit(Wakeup.CIRCUIT | Wakeup.OUTBOX)
        return await self.read_circuit(endpoint_id)

    @activity.defn
    async def warn_owners(self, endpoint_id: str) -> CircuitStatus:
        """Mail the owners: half of the time until the endpoint is disabled has passed."""
        return await self._notify(endpoint_id, NoticeKind.STILL_FAILING)

    @activity.defn
    async def notify_recovered(self, endpoint_id: str) -> CircuitStatus:
        """Mail the owners that the endpoint has recovered, although it is still draining."""
        return await self._notify(endpoint_id, NoticeKind.RECOVERED)

    async def _notify(self, endpoint_id: str, kind: NoticeKind) -> CircuitStatus:
        now = utc_now()
        async with self._database.write() as connection:
            owned = await circuits.get(connection, endpoint_id)
            if owned is not None and owned.circuit.cause is Cause.FAILURES:
                failing = owned.circuit.state in (State.OPEN, State.HALF_OPEN)
                if failing is (kind is NoticeKind.STILL_FAILING):
                    await notifications.notify_owners(
                        connection,
                        owned,
                        owned.circuit,
                        kind,
                        policy=self._policy_of(owned),
                        now=now,
                    )
        self._on_commit(Wakeup.CIRCUIT)
        return await self.read_circuit(endpoint_id)

    async def _change(
        self, endpoint_id: str, transition: Callable[[EndpointCircuit], Circuit]
    ) -> CircuitStatus:
        """Apply a transition to the row, and return the status after it. A disabled or deleted
        endpoint needs no probes: everything that it holds is released."""
        now = utc_now()

        def normal(owned: EndpointCircuit) -> Circuit:
            after = transition(owned)
            if owned.endpoint_state.stopped and after.state in (State.OPEN, State.HALF_OPEN):
                after = release_all(after, Cause.DISABLED, now=now)
            return after if after.state is State.CLOSED else replace(after, workflow_started=True)

        async with self._database.write() as connection:
            changed = await circuits.change(connection, endpoint_id, normal, now=now)
            if changed is None:
                return CircuitStatus(State.CLOSED, EndpointState.DELETED)
            owned, after = changed
            held = await circuits.count_held(connection, endpoint_id)
        return self._status(owned, after, held=held, now=now)

    def _status(
        self, owned: EndpointCircuit, circuit: Circuit, *, held: int, now: datetime
    ) -> CircuitStatus:
        policy = self._policy_of(owned)
        armed = circuit.state is State.HALF_OPEN and circuit.probe_delivery_id is None
        under_way = circuit.state is State.HALF_OPEN and not armed
        due_at = None if under_way else circuit.next_probe_at
        since = circuit.first_failure_at
        return CircuitStatus(
            state=circuit.state,
            endpoint_state=owned.endpoint_state,
            episode=circuit.episode,
            probes=circuit.probes,
            wait_seconds=0.0 if due_at is None else max(0.0, (due_at - now).total_seconds()),
            failing_since=None if since is None else rfc3339(since),
            failing_seconds=0.0 if since is None else max(0.0, (now - since).total_seconds()),
            disable_after_seconds=policy.disable_after.total_seconds(),
            held=held,
            drained=circuit.drained,
            armed=armed,
            rate_limit_per_second=owned.rate_limit_per_second,
            last_error=circuit.last_error,
        )

    def _policy_of(self, owned: EndpointCircuit) -> Policy:
        return self._policy.with_overrides(owned.overrides)


def _at_rate(circuit: Circuit, rate: float) -> Circuit:
    return replace(circuit, drain_rate=rate) if circuit.state is State.DRAINING else circuit


def _loop_time() -> float:
    return asyncio.get_running_loop().time()

"""What the circuit breaker's workflow and its activities say to each other: one episode, from an
endpoint's failing until everything held for it has gone. Pure; the state is that of `circuit`.

Durations are in seconds. Fields may be added with a default, never renamed or removed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hookfast.endpoints.circuit import EndpointState, State

WORKFLOW_TYPE: Final = "CircuitBreakerWorkflow"


def workflow_id(endpoint_id: str) -> str:
    """The id of an endpoint's circuit workflow."""
    return f"circuit/{endpoint_id}"


@dataclass(frozen=True, slots=True)
class OutageProgress:
    """What one run tells the next when it continues as new. `failing_seconds` as of then."""

    failing_since: str | None = None
    failing_seconds: float = 0.0
    drain_step: int = 0
    drain_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class CircuitInput:
    """The workflow's input."""

    endpoint_id: str
    progress: OutageProgress = OutageProgress()


@dataclass(frozen=True, slots=True)
class CircuitStatus:
    """How a circuit stands, as every activity reports it.

    `failing_since` names the streak of failures (it changes with every success) and
    `failing_seconds` is how long it has lasted. `wait_seconds`: until the next probe. `armed`: the
    circuit is half-open and waits for a delivery to come, as none is held.
    """

    state: State
    endpoint_state: EndpointState
    episode: int = 0
    probes: int = 0
    wait_seconds: float = 0.0
    failing_since: str | None = None
    failing_seconds: float = 0.0
    disable_after_seconds: float = 0.0
    held: int = 0
    drained: int = 0
    armed: bool = False
    rate_limit_per_second: float | None = None
    last_error: str | None = None


@dataclass(frozen=True, slots=True)
class DrainInput:
    """One step of the ramp: let go of `rate` deliveries a second for `seconds`."""

    endpoint_id: str
    rate: float
    seconds: float


@dataclass(frozen=True, slots=True)
class OutageState:
    """Answer of the `state` query, and the workflow's result."""

    state: State
    episode: int
    probes: int
    held: int
    drained: int
    last_error: str | None

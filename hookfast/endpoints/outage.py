"""Messages between the circuit breaker's workflow and its activities, about one outage: from an
endpoint's failures until no delivery is held for it. Pure.

Durations are in seconds. Fields may be added with a default, never renamed or removed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hookfast.endpoints.circuit import EndpointState, State
from hookfast.workflow_input import workflow_input

WORKFLOW_TYPE: Final = "CircuitBreakerWorkflow"


def workflow_id(endpoint_id: str) -> str:
    """Return the id of an endpoint's circuit workflow."""
    return f"circuit/{endpoint_id}"


@dataclass(frozen=True, slots=True)
class OutageProgress:
    """State that a run passes on when it continues as new. `failing_seconds` is as of then."""

    failing_since: str | None = None
    failing_seconds: float = 0.0
    drain_step: int = 0
    drain_seconds: float = 0.0


@workflow_input
@dataclass(frozen=True, slots=True)
class CircuitInput:
    """Input of the circuit breaker's workflow."""

    endpoint_id: str
    progress: OutageProgress = OutageProgress()


@dataclass(frozen=True, slots=True)
class CircuitStatus:
    """The status of a circuit, which every activity returns.

    `failing_since` identifies the series of failures (it changes with every success), and
    `failing_seconds` is how long it has lasted. `wait_seconds`: until the next probe. `armed`: the
    circuit is half-open and waits for the next delivery, because none is held.
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
    """Input of one step of the drain: release `rate` deliveries per second for `seconds`."""

    endpoint_id: str
    rate: float
    seconds: float


@dataclass(frozen=True, slots=True)
class OutageState:
    """Result of the `state` query and of the workflow."""

    state: State
    episode: int
    probes: int
    held: int
    drained: int
    last_error: str | None

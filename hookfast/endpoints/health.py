"""The health of an endpoint: one word that says whether its deliveries arrive, derived from what
people set, its circuit and its failures. Pages, the API and the command line all show this word.

    disabled ▶ paused ▶ circuit_open ▶ draining ▶ failing ▶ healthy

The first that applies counts: what a person decided is above what the circuit does, and that is
above single failures. An endpoint of the mode `poll` gets no requests, so it never fails and has no
circuit: it is healthy unless it is paused or disabled. Whether its consumer is behind is a figure
of its own (`polling` in the API).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, assert_never

from hookfast.endpoints.circuit import EndpointState, State


class Health(StrEnum):
    """How an endpoint is doing."""

    HEALTHY = "healthy"
    FAILING = "failing"
    CIRCUIT_OPEN = "circuit_open"
    DRAINING = "draining"
    PAUSED = "paused"
    DISABLED = "disabled"


DISABLED_BY_REQUEST: Final = "Disabled by request."
"""The reason of an endpoint that a person disabled. Hookfast gives others for those it disabled."""


def is_by_request(health: Health, state_reason: str | None) -> bool:
    """Return whether an endpoint is disabled because a person asked for it."""
    return health is Health.DISABLED and state_reason == DISABLED_BY_REQUEST


EXPLANATIONS: Final[dict[Health, str]] = {
    Health.HEALTHY: "The last attempt succeeded, or none was made yet. Deliveries are sent.",
    Health.FAILING: "The last attempts failed, too few to open the circuit. "
    "Deliveries are sent and retried.",
    Health.CIRCUIT_OPEN: "Too many attempts failed in a row. Deliveries are held, and single ones "
    "probe whether the endpoint works again.",
    Health.DRAINING: "The endpoint works again. Held deliveries are sent at a rising rate.",
    Health.PAUSED: "A person paused the endpoint. Deliveries are held until it is resumed.",
    Health.DISABLED: "Nothing is sent to the endpoint. Its deliveries become dead letters until it "
    "is enabled.",
}
"""What each health means for the endpoint's deliveries."""


def derive_health(
    endpoint_state: EndpointState, circuit: State, *, consecutive_failures: int
) -> Health:
    """Return the health of an endpoint. A half-open circuit counts as open: only its probe is
    sent."""
    match endpoint_state:
        case EndpointState.DISABLED | EndpointState.DELETED:
            return Health.DISABLED
        case EndpointState.PAUSED:
            return Health.PAUSED
        case EndpointState.ENABLED:
            pass
        case _:
            assert_never(endpoint_state)
    match circuit:
        case State.OPEN | State.HALF_OPEN:
            return Health.CIRCUIT_OPEN
        case State.DRAINING:
            return Health.DRAINING
        case State.CLOSED:
            return Health.FAILING if consecutive_failures > 0 else Health.HEALTHY
        case _:
            assert_never(circuit)

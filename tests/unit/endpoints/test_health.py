"""The health of an endpoint for every combination of its state, its circuit and its failures."""

from __future__ import annotations

from itertools import product

import pytest

from hookfast.endpoints.circuit import EndpointState, State
from hookfast.endpoints.health import EXPLANATIONS, Health, derive_health

ENABLED = [
    (State.CLOSED, 0, Health.HEALTHY),
    (State.CLOSED, 1, Health.FAILING),
    (State.OPEN, 0, Health.CIRCUIT_OPEN),
    (State.OPEN, 5, Health.CIRCUIT_OPEN),
    (State.HALF_OPEN, 0, Health.CIRCUIT_OPEN),
    (State.HALF_OPEN, 5, Health.CIRCUIT_OPEN),
    (State.DRAINING, 0, Health.DRAINING),
    (State.DRAINING, 2, Health.DRAINING),
]
STOPPED = {
    EndpointState.PAUSED: Health.PAUSED,
    EndpointState.DISABLED: Health.DISABLED,
    EndpointState.DELETED: Health.DISABLED,
}


@pytest.mark.parametrize(("circuit", "failures", "health"), ENABLED)
def test_enabled_endpoint_is_as_its_circuit_and_its_failures_say(
    circuit: State, failures: int, health: Health
) -> None:
    assert derive_health(EndpointState.ENABLED, circuit, consecutive_failures=failures) is health


def test_table_of_enabled_endpoints_has_every_circuit() -> None:
    assert {(circuit, bool(failures)) for circuit, failures, _ in ENABLED} == set(
        product(State, (False, True))
    )


@pytest.mark.parametrize(("circuit", "failures", "_health"), ENABLED)
@pytest.mark.parametrize("state", STOPPED)
def test_persons_decision_counts_more_than_the_circuit(
    state: EndpointState, circuit: State, failures: int, _health: Health
) -> None:
    assert derive_health(state, circuit, consecutive_failures=failures) is STOPPED[state]


def test_every_health_is_explained_in_words() -> None:
    assert set(EXPLANATIONS) == set(Health)

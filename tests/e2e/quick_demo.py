"""`hookfast demo` whose outage, retries and probes take a second, not up to fifteen."""

from __future__ import annotations

from dataclasses import replace

from hookfast.cli import main
from hookfast.cli.demo import receiver, setup
from hookfast.cli.demo.scene import ENDPOINTS, DemoEndpoint

_OUTAGE_SECONDS = 5.0
"""Long enough for the three failures that open a circuit."""


def _quick(endpoint: DemoEndpoint) -> DemoEndpoint:
    """Return the endpoint with delays of a second."""
    assert not isinstance(endpoint.retry_plan, str)
    retries = {"delays_seconds": [1 for _ in endpoint.retry_plan["delays_seconds"]]}
    circuit = dict(endpoint.circuit)
    if circuit:
        circuit["probe_delays_seconds"] = [1 for _ in circuit["probe_delays_seconds"]]
    return replace(endpoint, retry_plan=retries, circuit=circuit)


receiver._OUTAGE_SECONDS = _OUTAGE_SECONDS
setup.ENDPOINTS = tuple(map(_quick, ENDPOINTS))
main()

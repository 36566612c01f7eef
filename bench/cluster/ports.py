"""Free ports of loopback for the parts of a cluster."""

from __future__ import annotations

import random
from collections.abc import Iterator

from hookfast.supervisor.embedded_temporal import free_port

_FIRST, _LAST = 15_000, 30_000
"""Below the ports that the system gives to outgoing connections."""


def free_ports() -> Iterator[int]:
    """Yield free ports, each once. They begin at random, so that clusters that start at the same
    time take different ones."""
    port = random.randrange(_FIRST, _LAST, 100)
    while True:
        port = free_port(port)
        yield port
        port += 1

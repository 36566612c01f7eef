"""What the tests of `up` and `demo` share: a clean environment, free ports, patience."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress

from tests.support.waiting import PATIENCE


def environment() -> dict[str, str]:
    """Ours without settings that would reach a service of the developer's."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HOOKFAST_", "TEMPORAL_"))
    }


def free_ports(count: int) -> list[int]:
    """Ports that are free now, from below the range the system hands out by itself: there, a
    Temporal server or a connection of another test might take one before we do."""
    ports: list[int] = []
    while len(ports) < count:
        port = secrets.randbelow(17_000) + 15_000
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if port not in ports:
                ports.append(port)
    return ports


def lives(pid: int) -> bool:
    """Whether the process runs. A zombie that nobody has waited for yet is dead enough."""
    listed = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], check=False, capture_output=True, text=True
    )
    return listed.stdout.strip() != "" and not listed.stdout.startswith("Z")


def eventually(condition: Callable[[], bool], *, patience: float = PATIENCE) -> None:
    """Return when the condition holds; fail after `patience` seconds."""
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)

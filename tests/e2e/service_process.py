"""Environment, ports and waiting for tests that start `hookfast` commands as processes."""

from __future__ import annotations

import os
import secrets
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress

import psutil

from tests.support.waiting import PATIENCE

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""`verify` of clients that use HTTP only: the default reads the certificate authorities, which
takes 40 ms."""


def environment() -> dict[str, str]:
    """Return this process's environment without settings that name a developer's service."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HOOKFAST_", "TEMPORAL_"))
    }


def free_ports(count: int) -> list[int]:
    """Return ports that are free now. They are below the range from which the system assigns ports:
    otherwise a server or connection of another test might take one first."""
    ports: list[int] = []
    while len(ports) < count:
        port = secrets.randbelow(17_000) + 15_000
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if port not in ports:
                ports.append(port)
    return ports


def lives(pid: int) -> bool:
    """Return whether the process runs. A zombie, for which nobody has waited yet, does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def eventually(condition: Callable[[], bool], *, patience: float = PATIENCE) -> None:
    """Wait until the condition holds. Fails after `patience` seconds."""
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, f"the condition did not hold within {patience} s"
        time.sleep(0.1)

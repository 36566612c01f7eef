"""Compose's Caddyfile with this cluster's addresses. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

_API_ADDRESSES = re.compile(r"(?<=reverse_proxy )\S.*(?= \{)")
_SITE_PORT = re.compile(r"(?<=http_port )\d+")
_HTTPS_PORT = re.compile(r"(?<=https_port )\d+")
_HEALTH_PORT = re.compile(r"(?<=^http://127\.0\.0\.1:)\d+", re.MULTILINE)
_OPTIONS = re.compile(r"^\tadmin off$", re.MULTILINE)


def render(
    caddyfile: str, *, apis: Sequence[str], port: int, https_port: int, health_port: int
) -> str:
    """Return the Caddyfile for these APIs and ports, on loopback only. Nothing else changes: its
    timeouts and retries are those of production. Raises ValueError if it does not have exactly one
    of each address."""
    rendered = caddyfile
    for pattern, replacement in (
        (_API_ADDRESSES, " ".join(apis)),
        (_SITE_PORT, str(port)),
        (_HTTPS_PORT, str(https_port)),
        (_HEALTH_PORT, str(health_port)),
        (_OPTIONS, "\tadmin off\n\tdefault_bind 127.0.0.1"),
    ):
        rendered, found = pattern.subn(replacement, rendered)
        if found != 1:
            raise ValueError(f"{found} places in the Caddyfile match {pattern.pattern}, not one")
    return rendered

"""Metrics as Prometheus text, and who may read them (docs/telemetry.md)."""

from __future__ import annotations

import hmac
from contextlib import suppress
from ipaddress import ip_address
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip", "via")
"""Headers by which a proxy says that it forwards a request."""


def text(registry: CollectorRegistry) -> bytes:
    """Return all metrics of the registry as text. It takes milliseconds, so call it in a thread."""
    rendered: bytes = generate_latest(registry)
    return rendered


def has_token(authorization: str, token: str) -> bool:
    """Whether an `Authorization` header has this token. A wrong one takes as long to check."""
    scheme, _, given = authorization.partition(" ")
    same = hmac.compare_digest(given.strip().encode("utf-8", "replace"), token.encode())
    return scheme.lower() == "bearer" and same


def is_local(address: str | None, *, host: str, forwarded: bool) -> bool:
    """Whether a request comes from this machine, and was meant for it.

    A reverse proxy on this machine forwards requests from elsewhere, and says so in a header
    (`forwarded`). A foreign page in a browser on this machine can let its own name resolve to
    loopback (DNS rebinding); that name is then in `host`, the `Host` header (RFC 9110, section
    7.2).
    """
    from_here = address is not None and (address == "::1" or address[:4] == "127.")
    return from_here and not forwarded and _is_loopback(host)


def _is_loopback(host: str) -> bool:
    with suppress(ValueError):  # it has no host, or the host is not an address
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ip_address(name).is_loopback
    return False

"""Host names that are blocked whatever they resolve to, or that belong to private networks.

A name of a private network gives access like its address, and strangers must not learn what it
resolves to, so these names are checked before they are resolved. Sources: RFC 6761 and its
registry, RFC 6762 (`.local`), RFC 8375 (`home.arpa`), RFC 9476 (`.alt`), and ICANN's reservations
of `.internal` (2024) and of names that often collide (`.home`, `.corp`, `.mail`). `.svc` is the
suffix of services inside a Kubernetes cluster: a pod's resolver adds the rest (`ndots:5`).
"""

from __future__ import annotations

_LOCAL_SUFFIXES = (
    "alt",
    "arpa",
    "consul",
    "corp",
    "home",
    "internal",
    "intranet",
    "lan",
    "local",
    "localdomain",
    "localhost",
    "mail",
    "onion",
    "private",
    "svc",
)
# The metadata services of AWS, Google, IBM, Tencent and Equinix. Their addresses are blocked too;
# the names are blocked so that a resolver cannot return other addresses for them.
_METADATA = (
    "instance-data",
    "instance-data.ec2.internal",
    "metadata",
    "metadata.google.internal",
    "metadata.goog",
    "metadata.cloud.ibm.com",
    "metadata.tencentyun.com",
    "metadata.platformequinix.com",
    "metadata.packet.net",
)


def is_metadata_name(host: str) -> bool:
    """Return whether `host` (lower case, ASCII) is, or is below, a cloud metadata service."""
    return any(_within(host, name) for name in _METADATA)


def is_local_name(host: str) -> bool:
    """Return whether `host` (lower case, ASCII, not an address) is a name for private networks: a
    single label, or a suffix reserved for private use."""
    return "." not in host or any(_within(host, suffix) for suffix in _LOCAL_SUFFIXES)


def _within(host: str, name: str) -> bool:
    return host == name or host.endswith(f".{name}")

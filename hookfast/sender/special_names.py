"""Host names that are refused whatever they resolve to, or that only private networks know.

A name inside somebody's network is as good a way in as an address, and what it resolves to must
not be told to strangers: such names are judged before anything is asked. Sources: RFC 6761 and its
registry, RFC 6762 (`.local`), RFC 8375 (`home.arpa`), RFC 9476 (`.alt`), and ICANN's reservations
of `.internal` (2024) and of the names that collide too often (`.home`, `.corp`, `.mail`). `.svc` is
what a pod calls the services of its cluster by: its resolver adds the rest (`ndots:5`).
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
# The clouds' metadata services: AWS, Google, IBM, Tencent, Equinix. Their addresses are refused
# too; the names are so that a resolver which answers for them cannot put others in their place.
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
    """Whether `host` (lower case, ASCII) is, or lies under, a cloud's metadata service."""
    return any(_within(host, name) for name in _METADATA)


def is_local_name(host: str) -> bool:
    """Whether `host` (lower case, ASCII, no address) has no business in the public DNS: it has a
    single label, or an ending that is reserved for private use."""
    return "." not in host or any(_within(host, suffix) for suffix in _LOCAL_SUFFIXES)


def _within(host: str, name: str) -> bool:
    return host == name or host.endswith(f".{name}")

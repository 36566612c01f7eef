"""The URL at which this machine reaches a server that listens on a given address."""

from __future__ import annotations

from ipaddress import ip_address


def local_url(host: str, port: int) -> str:
    """Return the base URL at which this machine reaches a server that listens on `host`: on
    loopback if it listens on every address. IPv6 is in brackets (RFC 3986, section 3.2.2)."""
    if listens_everywhere(host):
        host = "::1" if ":" in host else "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def listens_everywhere(host: str) -> bool:
    """Whether `host` means every address of the machine, so that no client can use it."""
    try:
        return not host or ip_address(host).is_unspecified
    except ValueError:
        return False

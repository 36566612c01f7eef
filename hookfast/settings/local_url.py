"""Where a server on this machine is reached, by the address that it listens on. Pure."""

from __future__ import annotations

from ipaddress import ip_address


def local_url(host: str, port: int) -> str:
    """The base URL at which this machine reaches a server that listens on `host`. An IPv6 address
    is in brackets (RFC 3986, section 3.2.2); every address at once is none to call, so loopback's
    stands for it."""
    if listens_everywhere(host):
        host = "::1" if ":" in host else "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def listens_everywhere(host: str) -> bool:
    """Whether a server on `host` listens on every address of its machine, which names none."""
    try:
        return not host or ip_address(host).is_unspecified
    except ValueError:
        return False

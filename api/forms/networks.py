"""Validation of networks in CIDR notation."""

from __future__ import annotations

from ipaddress import ip_network

from hookfast.errors import InvalidInput


def check_network(text: str, *, pointer: str) -> str:
    """Return the network in canonical form, such as `203.0.113.0/24`. Raises InvalidInput."""
    try:
        if "%" in text:  # a zone, which Python accepts but which has no meaning here
            raise ValueError
        return str(ip_network(text))
    except ValueError:
        raise InvalidInput.at(
            pointer, "must be a network such as 203.0.113.0/24, without host bits"
        ) from None

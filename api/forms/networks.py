"""Validation of networks in CIDR notation."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_network

from hookfast.errors import InvalidInput


def check_networks(texts: Sequence[str]) -> list[str]:
    """Return the member `allowed_networks` in canonical form, such as `203.0.113.0/24`. Raises
    InvalidInput at the faulty network."""
    return [_network(text, f"/allowed_networks/{index}") for index, text in enumerate(texts)]


def _network(text: str, pointer: str) -> str:
    try:
        if "%" in text:  # a zone, which Python accepts but which has no meaning here
            raise ValueError
        return str(ip_network(text))
    except ValueError:
        raise InvalidInput.at(
            pointer, "must be a network such as 203.0.113.0/24, without host bits"
        ) from None

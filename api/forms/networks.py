"""Networks as the API takes them."""

from __future__ import annotations

from ipaddress import ip_network

from hookfast.errors import InvalidInput


def check_network(text: str, *, pointer: str) -> str:
    """The network in its usual spelling, such as `203.0.113.0/24`. Raises InvalidInput."""
    try:
        if "%" in text:  # a zone, which Python takes and which means nothing here
            raise ValueError
        return str(ip_network(text))
    except ValueError:
        raise InvalidInput.at(
            pointer, "must be a network such as 203.0.113.0/24, without host bits"
        ) from None

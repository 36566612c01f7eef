"""The types of settings whose text needs parsing: durations, networks and ports."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import timedelta
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated

from pydantic import BeforeValidator, Field
from pydantic_settings import NoDecode

Network = IPv4Network | IPv6Network

_PORTS = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")


def _parse_seconds(value: object) -> object:
    """Read a number in text as seconds, which pydantic does only for a number itself. It reads the
    other forms (`PT30S`, `00:00:30`)."""
    if isinstance(value, str):
        with suppress(ValueError):
            return float(value)
    return value


def _split_networks(value: object) -> object:
    if isinstance(value, str):
        return tuple(ip_network(part.strip()) for part in value.split(",") if part.strip())
    return value


def parse_port_ranges(text: str) -> tuple[range, ...]:
    """Parse ports and ranges of ports such as `443, 8000-8999`; an empty text has none. Raises
    ValueError, whose message is a sentence."""
    found = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = _PORTS.fullmatch(part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= first <= last <= 65535:
            raise ValueError(f"{part!r} is not a port or a range of ports, like 443 or 8000-8999")
        found.append(range(first, last + 1))
    return tuple(found)


Seconds = Annotated[timedelta, BeforeValidator(_parse_seconds), Field(gt=timedelta(0))]
"""A duration that is longer than zero."""
SecondsOrZero = Annotated[timedelta, BeforeValidator(_parse_seconds), Field(ge=timedelta(0))]
Networks = Annotated[tuple[Network, ...], BeforeValidator(_split_networks), NoDecode]
"""Comma-separated networks in CIDR notation."""
Port = Annotated[int, Field(ge=0, le=65535)]
"""A port; 0 takes a free one."""

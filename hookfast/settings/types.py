"""The types of settings whose text is parsed or checked."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr
from pydantic_settings import NoDecode

from hookfast.mail_address import parse_mailbox
from hookfast.settings.egress_proxy import parse_egress_proxy

Network = IPv4Network | IPv6Network
TemporalCompression = Literal["auto", "on", "off"]

OPERATOR_KEY_FORM = re.compile(r"hf_[A-Za-z0-9_-]{32,}")
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")  # Python also reads `1_000`
_PORTS = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")


def _parse_seconds(value: object) -> object:
    """Read a number in text as seconds, which pydantic does only for a number itself. It reads the
    other forms (`PT30S`, `00:00:30`)."""
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        return float(value)
    return value


def check_number(value: object) -> object:
    """Return the value of a setting that is a number. Raises ValueError for a text that is not one
    in plain digits: Python would also read `1_000`, `+1` and the digits of other scripts."""
    if isinstance(value, str) and not _NUMBER.fullmatch(value.strip()):
        raise ValueError("must be a number in plain digits, such as 1000")
    return value


def comma_separated(parse: Callable[[str], object]) -> BeforeValidator:
    """Return the validator of a text that is a list: `parse` reads each part of it."""

    def split(value: object) -> object:
        if isinstance(value, str):
            return tuple(parse(part.strip()) for part in value.split(",") if part.strip())
        return value

    return BeforeValidator(split)


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


def _check_url(value: str) -> str:
    if not re.match("https?://[^/]", value, re.IGNORECASE):
        raise ValueError("must be a URL like https://hooks.example.com")
    return value


def _check_page_url(value: str) -> str:
    if "#" in value:
        raise ValueError("must not have a fragment, because links to sections of the page add one")
    return _check_url(value)


def _check_ports(value: str) -> str:
    parse_port_ranges(value)
    return value


def _check_folder(value: Path) -> Path:
    if value.parts[:1] and value.parts[0].startswith("~"):
        raise ValueError("~ does not stand for a folder here; write the whole path")
    return value


def _check_mailbox(value: str) -> str:
    try:
        parse_mailbox(value)
    except ValueError as error:
        raise ValueError(
            f"{error}; write hooks@example.com, Hooks <hooks@example.com>, or "
            '"Acme, Inc." <hooks@example.com>'
        ) from None
    return value


def _check_egress_proxy(value: SecretStr | None) -> SecretStr | None:
    if value is not None:
        parse_egress_proxy(value.get_secret_value())
    return value


def _check_operator_key(value: SecretStr | None) -> SecretStr | None:
    if value is not None and not OPERATOR_KEY_FORM.fullmatch(value.get_secret_value()):
        raise ValueError("must be 'hf_' followed by at least 32 URL-safe characters")
    return value


Seconds = Annotated[timedelta, BeforeValidator(_parse_seconds), Field(gt=timedelta(0))]
"""A duration that is longer than zero."""
SecondsOrZero = Annotated[timedelta, BeforeValidator(_parse_seconds), Field(ge=timedelta(0))]
Networks = Annotated[tuple[Network, ...], comma_separated(ip_network), NoDecode]
"""Comma-separated networks in CIDR notation."""
Port = Annotated[int, Field(ge=0, le=65535)]
"""A port; 0 takes a free one."""
PortRanges = Annotated[str, AfterValidator(_check_ports)]
"""Comma-separated ports and ranges, as `parse_port_ranges` reads them."""
PublicUrl = Annotated[str, AfterValidator(_check_url)]
PageUrl = Annotated[str, AfterValidator(_check_page_url)]
"""The URL of a page, to whose sections links lead."""
Folder = Annotated[Path, AfterValidator(_check_folder)]
"""A folder. Only a shell replaces ~, so in a file of variables it would be a name."""
Mailbox = Annotated[str, AfterValidator(_check_mailbox)]
"""A mail address, which may have a name."""
# None is part of these two: `secret_files` finds secrets by the type outside of the annotation.
EgressProxyUrl = Annotated[SecretStr | None, AfterValidator(_check_egress_proxy)]
OperatorKey = Annotated[SecretStr | None, AfterValidator(_check_operator_key)]

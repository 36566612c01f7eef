"""Validate endpoint URLs and parse them into their parts.

The grammar is the part of RFC 3986 that all URL parsers read alike, so that the checked host is
also the host of the connection. The address guard decides which hosts are allowed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address

import idna

from hookfast.errors import InvalidInput

MAX_URL = 2048
"""Longest URL, in characters."""
MAX_HOST = 253
"""Longest host name, in characters (RFC 1035, section 2.3.4, without the root's dot)."""

_DEFAULT_PORTS = {"https": 443, "http": 80}
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_AUTHORITY = re.compile(
    r"//(?P<authority>(?P<host>\[[^\[\]/?@]*\]|[^:/?@\[\]]*)(?::(?P<port>[^:/?@]*))?)(?=[/?]|$)"
)
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
# A host whose last label is a number is an IPv4 address to most parsers (WHATWG URL, section 3.5).
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


@dataclass(frozen=True, slots=True)
class Url:
    """The parts of a checked URL. `host` is an ASCII name, or an IP address without brackets;
    `target` is path and query, as on the request line."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def authority(self) -> str:
        """The value of the `Host` header, without the scheme's default port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def peer(self) -> str:
        """The host and port for messages."""
        return peer_name(self.host, self.port)


def peer_name(host: str, port: int) -> str:
    """Return `host:port`, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def check_url(url: str, *, allow_http: bool, pointer: str = "/url") -> str:
    """Return `url` with scheme and host normalised (lower case, A-labels, RFC 5952 for IPv6).

    Raises InvalidInput, code `invalid_url`, whose message says what to change.
    """
    if len(url) > MAX_URL:
        raise _invalid(pointer, f"shorten the URL to at most {MAX_URL} characters")
    scheme, host, port, rest = _split(url, allow_http=allow_http, pointer=pointer)
    normalised = f"{scheme}://{f'[{host}]' if ':' in host else host}"
    if port is not None:
        normalised += f":{port}"
    normalised += rest
    if len(normalised) > MAX_URL:  # A-labels are longer than their Unicode
        raise _invalid(pointer, f"shorten the URL to at most {MAX_URL} characters")
    return normalised


@lru_cache(maxsize=4096)
def parse_url(url: str) -> Url:
    """Parse a URL of any length. Raises InvalidInput for the same reasons as `check_url`."""
    scheme, host, port, rest = _split(url, allow_http=True, pointer="/url")
    target = rest if rest.startswith("/") else f"/{rest}"
    return Url(scheme, host, port or _DEFAULT_PORTS[scheme], target)


def _split(url: str, *, allow_http: bool, pointer: str) -> tuple[str, str, int | None, str]:
    """Return scheme, host, port (None if the URL has no port), and path with query."""
    for character, advice in _INVALID_CHARACTERS.items():
        if character in url:
            raise _invalid(pointer, advice)
    if any(character <= " " or character == "\x7f" for character in url):
        raise _invalid(
            pointer, "percent-encode or remove the spaces and control characters in the URL"
        )
    schemes = ("https", "http") if allow_http else ("https",)
    match = _SCHEME.match(url)
    scheme = match[1].lower() if match else ""
    if match is None or scheme not in schemes:
        raise _invalid(pointer, f"begin the URL with {' or '.join(f'{s}://' for s in schemes)}")
    authority = _AUTHORITY.match(url, match.end())
    if authority is None:
        raise _invalid(pointer, _authority_advice(url[match.end() :]))
    rest = url[authority.end() :]
    if not rest.isascii():
        raise _invalid(pointer, "percent-encode the non-ASCII characters after the host")
    host = _host(authority["host"], pointer)
    return scheme, host, _port(authority["port"], pointer), rest


_INVALID_CHARACTERS = {
    "#": "remove the fragment (from '#' on): it is never sent",
    "\\": "replace backslashes with '/', or percent-encode them",
}


def _authority_advice(rest: str) -> str:
    if not rest.startswith("//"):
        return "write the URL with '//' after the scheme"
    if "@" in re.split(r"[/?]", rest[2:], maxsplit=1)[0]:
        return "remove the user name and password before '@'; use a header or the signature instead"
    return "write the host as a name, an IPv4 address or an IPv6 address in brackets"


def _port(text: str | None, pointer: str) -> int | None:
    if text is None:
        return None
    if not _PORT.fullmatch(text) or int(text) > 65535:
        raise _invalid(pointer, "use a port from 1 to 65535, or leave out the ':'")
    return int(text)


def _host(text: str, pointer: str) -> str:
    if text.startswith("["):
        return _ipv6(text[1:-1], pointer)
    if not text:
        raise _invalid(pointer, "name a host after '//'")
    host = text.lower() if text.isascii() else _a_labels(text, pointer)
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return _ipv4(host, pointer)
    if len(host) > MAX_HOST:
        raise _invalid(pointer, f"use a host name of at most {MAX_HOST} characters")
    for label in labels:
        if not _LABEL.fullmatch(label):
            raise _invalid(
                pointer,
                "use a host name of dot-separated labels: letters, digits, '-' and '_', 1 to 63 "
                "characters each, neither starting nor ending with '-', and no dot at the end",
            )
        if label.startswith("xn--"):
            _check_a_label(label, pointer)
    return host


def _ipv4(host: str, pointer: str) -> str:
    try:
        return str(IPv4Address(host))
    except AddressValueError:
        raise _invalid(
            pointer, "write an IPv4 address as four decimal numbers, e.g. 192.0.2.1"
        ) from None


def _ipv6(text: str, pointer: str) -> str:
    if "%" in text:
        raise _invalid(pointer, "remove the zone (from '%' on) from the IPv6 address")
    try:
        return str(IPv6Address(text))
    except AddressValueError:
        raise _invalid(pointer, "write a valid IPv6 address between the brackets") from None


def _a_labels(text: str, pointer: str) -> str:
    # Without UTS 46 mapping: full-width letters and ideographic dots are rejected, not converted.
    try:
        return idna.encode(text, strict=True).decode("ascii")
    except idna.IDNAError:
        raise _invalid(
            pointer,
            "use a host name that is valid IDNA 2008 (lower-case letters and digits, no emoji), or "
            "its xn-- form",
        ) from None


def _check_a_label(label: str, pointer: str) -> None:
    try:
        idna.ulabel(label)
    except idna.IDNAError:
        raise _invalid(pointer, f"the label {label!r} is not valid IDNA 2008; correct it") from None


def _invalid(pointer: str, detail: str) -> InvalidInput:
    return InvalidInput.at(pointer, detail, code="invalid_url")

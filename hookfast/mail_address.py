"""Mail addresses. What this parser accepts can be saved, and mail can be sent to it or from it.

The part before the @ is a dot-atom (RFC 5321, section 4.1.2): quoted forms, and letters outside
ASCII, which only servers with SMTPUTF8 accept, are rejected. The domain is a host name, also one
that is known only inside a network (`ops@mailhost`), or an internationalised one (RFC 5890).
"""

from __future__ import annotations

import re
from email.headerregistry import Address

import idna

MAX_ADDRESS = 254
"""Longest address on the wire, in characters (RFC 5321, section 4.5.3.1.3, without brackets)."""

_MAX_LOCAL = 64
_MAX_DOMAIN = 253
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LOCAL = re.compile(rf"{_ATOM}(?:\.{_ATOM})*")
_ENCODED_WORD = re.compile(r"=\?[^?]*\?[BbQq]\?")  # RFC 2047: mail programs would decode it
_LABEL = r"(?!-)[a-z0-9-]{1,63}(?<!-)"
_DOMAIN = re.compile(
    rf"(?:{_LABEL}\.)*(?![0-9]+\Z){_LABEL}"
)  # a number at the end is an IP address
_MAILBOX = re.compile(r'(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^"]*?)) *<(?P<address>[^<>]*)>')
_SPECIAL = frozenset('()<>[]:;@\\,"')  # RFC 5322, section 3.2.3; a dot in a name does no harm


def ascii_address(text: str) -> str:
    """Return the address as it is sent, with its domain in A-labels. Raises ValueError, whose
    message is a sentence."""
    local, at, domain = text.rpartition("@")
    if not at or "@" in local:
        raise ValueError("must be one e-mail address, e.g. ops@example.com")
    if len(local) > _MAX_LOCAL or not _LOCAL.fullmatch(local) or _ENCODED_WORD.search(local):
        raise ValueError(
            f"the part before the @ must be 1 to {_MAX_LOCAL} ASCII letters, digits and "
            "!#$%&'*+/=?^_`{|}~-, or several of these separated by single dots"
        )
    name = _a_labels(domain.lower())
    if len(name) > _MAX_DOMAIN or not _DOMAIN.fullmatch(name):
        raise ValueError("the part after the @ must be a host name, e.g. example.com")
    if len(local) + 1 + len(name) > MAX_ADDRESS:
        raise ValueError(f"must be at most {MAX_ADDRESS} characters")
    return f"{local}@{name}"


def parse_mailbox(text: str) -> Address:
    """Parse an address that may have a name: `hooks@example.com`, `Hooks <hooks@example.com>`.
    Raises ValueError, whose message is a sentence."""
    if not text.isprintable():
        raise ValueError("must be one line without control characters")
    match = _MAILBOX.fullmatch(text)
    if match is None:
        return Address(addr_spec=ascii_address(text))
    if match["quoted"] is not None:
        name = re.sub(r"\\(.)", r"\1", match["quoted"])
    elif _SPECIAL.isdisjoint(match["plain"]):
        name = match["plain"].strip()
    else:
        raise ValueError("put a name with any of ( ) [ ] : ; @ \\ , in double quotes")
    return Address(display_name=name, addr_spec=ascii_address(match["address"]))


def _a_labels(domain: str) -> str:
    """Return the domain in A-labels, or an empty text if one of its labels is not valid."""
    try:
        for label in domain.split("."):
            if label.startswith("xn--"):
                idna.ulabel(label)
        return domain if domain.isascii() else idna.encode(domain, strict=True).decode("ascii")
    except idna.IDNAError:
        return ""

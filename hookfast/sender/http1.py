"""Writes the heads of HTTP/1.1 requests, and parses those of responses (RFC 9112). Pure.

Three patterns check them as strictly as h11 does, with which a test compares them, for a quarter of
its CPU (ADR 56).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

Field = tuple[str, str]
"""Name and value as they are on the wire. Each character is a byte (Latin-1)."""

VERSION: Final = b"HTTP/1."
"""How every response begins."""
END_OF_HEAD: Final = re.compile(rb"\n\r?\n")
"""A line feed alone ends a line, too (section 2.2)."""

_NAME = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
# Bytes beyond ASCII are `obs-text` (RFC 9110, section 5.5). Possessive, so that no value of 64 KiB
# takes more than linear time.
_VALUE = r"(?:[^\x00\s]++(?:[ \t]++[^\x00\s]++)*)?"
_FIELD = re.compile(rf"({_NAME}):[ \t]*+({_VALUE})[ \t]*+\r?\n", re.ASCII)
_RESPONSE = re.compile(
    r"HTTP/1\.([0-9]) ([1-9][0-9]{2})(?: [^\x00\n\r\f\v]*)?\r?\n"
    rf"((?:{_NAME}:[ \t]*+{_VALUE}[ \t]*+\r?\n)*)\r?\n",
    re.ASCII,
)
_REQUEST = re.compile(rf"[A-Z]+ [!-~]+ HTTP/1\.1\r\n(?:{_NAME}: {_VALUE}\r\n)*\r\n", re.ASCII)
_FOLD = re.compile(r"\r?\n[ \t]+")
_LENGTH = re.compile(r"[0-9]{1,20}")


class InvalidRequest(ValueError):
    """A header or target that would not arrive as it is, or as several."""


class InvalidResponse(ValueError):
    """The bytes are not the head of an HTTP/1.x response."""


class Head(NamedTuple):
    """The head of a response. `length` is its body's, None if that is chunked or ends with the
    connection. `persists`: the connection can be used again after the response."""

    status: int
    headers: list[Field]
    length: int | None
    chunked: bool
    persists: bool


def request_head(method: str, target: str, fields: Sequence[Field]) -> bytes:
    """Return the head of a request. Raises InvalidRequest, which contains nothing of it."""
    lines = "".join([f"{name}: {value}\r\n" for name, value in fields])
    head = f"{method} {target} HTTP/1.1\r\n{lines}\r\n"
    # With as many lines as fields, no value has begun a line of its own.
    if not _REQUEST.fullmatch(head) or head.count("\n") != len(fields) + 2:
        raise InvalidRequest
    try:
        return head.encode("latin-1")
    except UnicodeEncodeError:
        raise InvalidRequest from None


def parse_response(head: bytes) -> Head:
    """Parse a head, which ends with an empty line. Its framing is that of a response to a request
    other than HEAD and CONNECT. Raises InvalidResponse."""
    text = head.decode("latin-1")
    match = _RESPONSE.fullmatch(text) or _RESPONSE.fullmatch(_unfolded(text))
    if match is None:
        raise InvalidResponse
    status = int(match[2])
    headers = _FIELD.findall(match[3])
    lengths: set[str] = set()
    chunked, persists = False, match[1] != "0"
    for name, value in headers:
        match name.lower():
            case "content-length":
                lengths.update(_list(value))
            case "transfer-encoding":
                if chunked or value.lower() != "chunked":
                    raise InvalidResponse
                chunked = True
            case "connection" if "close" in _list(value):
                persists = False
    if status == 101 or not _agree(lengths):  # we never ask for another protocol
        raise InvalidResponse
    # Section 6.3: without a body, whatever the headers say; otherwise chunks come before a length.
    if status in (204, 304):
        return Head(status, headers, 0, False, persists)
    if chunked:
        return Head(status, headers, None, True, persists)
    if not lengths:
        return Head(status, headers, None, False, False)
    return Head(status, headers, int(lengths.pop()), False, persists)


def _agree(lengths: set[str]) -> bool:
    """Whether the lengths of a body are valid: one may be repeated, but not contradicted."""
    return not lengths or (len(lengths) == 1 and all(map(_LENGTH.fullmatch, lengths)))


def _list(value: str) -> list[str]:
    return [item.strip(" \t") for item in value.lower().split(",")]


def _unfolded(head: str) -> str:
    """Join lines that were folded (section 5.2). The first field cannot continue a line."""
    end = head.find("\n") + 1
    return head[:end] + _FOLD.sub(" ", head[end:])

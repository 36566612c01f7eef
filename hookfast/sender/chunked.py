"""Decodes the chunked transfer coding (RFC 9112, section 7.1).

The decoder ignores extensions, as section 7.1.1 demands, also with the white space that their
grammar has, and never takes a byte beyond the end of the body.
"""

from __future__ import annotations

import re
from enum import Enum, auto

# The extensions of a chunk are ignored, quoted strings included: no line can end within one.
_SIZE = re.compile(rb"(0*[0-9A-Fa-f]{1,16})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?\r\n")
# A field or the continuation of one; as in heads, a line feed alone ends the line, too.
_TRAILER = re.compile(rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:|[ \t])[\t\x20-\x7e\x80-\xff]*\r?\n")
_END_OF_TRAILERS = (b"\r\n", b"\n")


class InvalidChunk(ValueError):
    """The bytes are not a chunked body."""


class _Next(Enum):
    SIZE = auto()
    DATA = auto()
    END_OF_DATA = auto()
    TRAILER = auto()
    NOTHING = auto()


class ChunkedBody:
    """A body as far as its chunks have come. `content` is its decoded content."""

    def __init__(self) -> None:
        self.content = bytearray()
        self._next = _Next.SIZE
        self._left = 0  # bytes of the current chunk
        self._line = bytearray()  # as far as it has come

    @property
    def complete(self) -> bool:
        """Whether the body has ended."""
        return self._next is _Next.NOTHING

    def feed(self, data: bytes | bytearray, *, limit: int) -> int:
        """Decode the next bytes, at most `limit`, and return how many were taken: all but those
        beyond the end of the body. Raises InvalidChunk."""
        at, end = 0, min(len(data), limit)
        while at < end and not self.complete:
            if self._next is _Next.DATA:
                until = min(end, at + self._left)
                self.content += data[at:until]
                self._left -= until - at
                at = until
                if not self._left:
                    self._next = _Next.END_OF_DATA
                continue
            until = data.find(b"\n", at, end) + 1 or end
            self._line += data[at:until]
            at = until
            if self._line.endswith(b"\n"):
                line = bytes(self._line)
                self._line.clear()
                self._take_line(line)
        return at

    def _take_line(self, line: bytes) -> None:
        match self._next:
            case _Next.SIZE if match := _SIZE.fullmatch(line):
                self._left = int(match[1], 16)
                self._next = _Next.DATA if self._left else _Next.TRAILER
            case _Next.END_OF_DATA if line == b"\r\n":
                self._next = _Next.SIZE
            case _Next.TRAILER if line in _END_OF_TRAILERS:
                self._next = _Next.NOTHING
            case _Next.TRAILER if _TRAILER.fullmatch(line):
                pass
            case _:
                raise InvalidChunk

"""JSON pointers (RFC 6901) to what is wrong in a body."""

from __future__ import annotations


def join(pointer: str, *parts: str | int) -> str:
    """`pointer` continued by these member names and indexes, escaped (RFC 6901, section 3)."""
    return pointer + "".join(
        f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in parts
    )

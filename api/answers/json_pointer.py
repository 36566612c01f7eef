"""JSON pointers (RFC 6901) to the faulty part of a request body."""

from __future__ import annotations


def join(pointer: str, *parts: str | int) -> str:
    """Append member names and indexes to `pointer`, escaped (RFC 6901, section 3)."""
    return pointer + "".join(
        f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in parts
    )
